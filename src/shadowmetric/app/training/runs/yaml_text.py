"""YAML as programs and people write settings: one flat table, every name once.

What YAML allows beside that is refused, since it would be lost or multiplied in silence: a name that is there twice, a
name that is no text, anchors. Whatever text it is, the answer is a table or a ValueError of one line.
"""

from typing import Any

import yaml

MOST_CHARACTERS = 2**20  # the longest settings take a few thousand


class StrictLoader(yaml.SafeLoader):
    """Reads plain values, and no name twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse an anchor's repetition: a few lines of them make a table larger than any memory."""
        if self.check_event(yaml.AliasEvent):
            raise ValueError(f"line {self.peek_event().start_mark.line + 1} repeats a value by `*`; write it out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Return a table whose names are text, each there once."""
        names = [self.construct_object(name, deep=True) for name, _ in node.value]
        for name, (written, _) in zip(names, node.value, strict=True):
            if not isinstance(name, str):
                raise ValueError(f"line {written.start_mark.line + 1} has the name {shortened(name)}, which is no text")
            if names.count(name) > 1:
                raise ValueError(f"the name {name!r} is there twice")
        return super().construct_mapping(node, deep)


def construct_table(loader: StrictLoader, node: Any) -> dict[Any, Any]:
    """Return a table with all that is in it."""
    return loader.construct_mapping(node, deep=True)


StrictLoader.add_constructor("tag:yaml.org,2002:map", construct_table)


def parse_yaml(text: bytes) -> dict[str, Any]:
    """Return the table of a text in UTF-8, or raise ValueError."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"it has {len(text):,} bytes, and settings take at most {MOST_CHARACTERS:,}")
    try:
        found = yaml.load(text.decode("utf-8-sig"), StrictLoader)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (yaml.YAMLError, ValueError, OverflowError, AttributeError, TypeError, KeyError, IndexError) as error:
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from None
    if not isinstance(found, dict):
        raise ValueError("it holds no options; write lines such as `epochs: 10`")
    return found


def shortened(value: Any) -> str:
    """Return a value as a sentence can hold it."""
    return "a number beyond 64 bits" if isinstance(value, int) and abs(value) >= 2**63 else repr(value)[:60]
