"""What a user got wrong, in one sentence."""


class Mistake(ValueError):
    """What the user got wrong, in one sentence that says what to do."""
