"""What a user got wrong, in one sentence: the roots of the family in `shadowmetric/errors.py`."""


class Mistake(ValueError):
    """What the user got wrong, in one sentence that says what to do."""


class BrokenImage(Mistake):
    """An image that cannot be read, with its name and the reason in one sentence."""
