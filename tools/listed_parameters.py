"""For the API page: the parameters that a docstring explains, line by line, become a list.

    margin: in the unit of what the loss compares        ->        - `margin`: in the unit of what the loss compares

Docstrings here are plain paragraphs, which Markdown would join into one. A line is a parameter's if it begins with a
name of small letters and a colon; the lines after it go on with it.
"""

import re
from typing import Any

import griffe

PARAMETER = re.compile(r"^([a-z_]\w*): (?=\S)")


def list_parameters(text: str) -> str:
    """Return a docstring with its explained parameters as a list."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        match = PARAMETER.match(line)
        if match:
            lines += [] if inside else [""]
            lines.append(f"- `{match[1]}`: {line[match.end() :]}")
        else:
            lines.append(f"    {line}" if inside and line else line)
        inside = bool(match) or (inside and bool(line))
    return "\n".join(lines)


class ListedParameters(griffe.Extension):
    """Changes the docstrings of classes and functions as they are read."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Change the docstring of a function."""
        self.change(func)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Change the docstring of a class."""
        self.change(cls)

    def change(self, griffe_object: griffe.Object) -> None:
        """Change the docstring of an object if it has one."""
        if griffe_object.docstring:
            griffe_object.docstring.value = list_parameters(griffe_object.docstring.value)
