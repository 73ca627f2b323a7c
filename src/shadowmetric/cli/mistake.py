"""What the user got wrong, in one sentence that says what to do."""

from shadowmetric.mistakes import Mistake as Mistake
