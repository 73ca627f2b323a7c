"""What sentences about a backbone or its weights have in common."""

from shadowmetric.errors import ModelMistake


def check_whole(name: str, value: object, least: int) -> None:
    """Refuse what is no whole number, or too small a one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ModelMistake(f"{name} is {value!r}; it must be a whole number of at least {least}.")


def first_few(names: list[str], most: int = 3) -> str:
    """Return a few of many names, with their count if there are more."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def one_line(wrong: Exception) -> str:
    """Return what a library said, in one line without its full stop."""
    lines = [line for line in str(wrong).splitlines() if line.strip()]
    return " ".join(lines[0].split()).rstrip(".") if lines else type(wrong).__name__
