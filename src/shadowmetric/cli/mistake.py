"""What the user got wrong, in one sentence that says what to do."""


class Mistake(Exception):
    """Ends the command with its sentence on standard error and exit code 2."""
