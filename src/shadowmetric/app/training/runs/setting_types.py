"""The types of settings: whether a value of a file has one, and what people call it."""

from pathlib import Path
from typing import Any, Literal, get_args, get_origin


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value of a file is of a setting's type; a path is a text, and any number a float."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kinds := get_args(kind):
        return any(fits(value, one) for one in kinds)
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    plain = {Path: str, float: int | float}.get(kind, kind)
    return isinstance(value, plain) and not (plain is str and "\0" in value)


def words_of(kind: Any) -> str:
    """Return what a setting's type is called."""
    called = {str: "text", Path: "path", int: "whole number", float: "number", bool: "true or false"}
    kinds = (kind,) if get_origin(kind) is Literal else get_args(kind) or (kind,)
    words = [" or ".join(get_args(one)) if get_origin(one) is Literal else called.get(one, "null") for one in kinds]
    return " or ".join(words)
