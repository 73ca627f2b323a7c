"""From the cosine of two images to "the same" or not, by what was measured on images with known classes.

A calibration is a table: cosines in rising order, and for each

    false_accepts   share of the pairs of two classes whose cosine is at least this    (falls)
    true_accepts    share of the pairs of one class whose cosine is at least this      (falls)
    confidence      share of such pairs that are of one class, if both kinds are equally frequent   (rises)

For a wanted rate of false accepts the threshold is the smallest cosine of the table whose share is at most that.
"""

import hashlib
import json
import math
from bisect import bisect_left, bisect_right
from dataclasses import asdict, dataclass
from typing import Any

from .errors import Mistake

DIGEST = "sha256"
COLUMNS = ("cosines", "false_accepts", "true_accepts", "confidence")


@dataclass(frozen=True)
class Decision:
    """Whether two images show the same, and how sure that is."""

    same: bool
    cosine: float
    threshold: float
    false_accept_rate: float  # measured, at the threshold
    true_accept_rate: float
    confidence: float  # that they are of one class, if that is as likely as not before one looks


@dataclass(frozen=True)
class Calibration:
    """What was measured, on which images, with which model."""

    fingerprint: str  # of the model
    images: str  # which, in words
    genuine_pairs: int
    impostor_pairs: int
    cosines: tuple[float, ...]
    false_accepts: tuple[float, ...]
    true_accepts: tuple[float, ...]
    confidence: tuple[float, ...]

    def least_rate(self) -> float:
        """Return the smallest rate of false accepts that so many pairs can show."""
        return 1 / self.impostor_pairs

    def decide(self, cosine: float, rate: float) -> Decision:
        """Return the decision at the threshold whose rate of false accepts is at most `rate`."""
        if not self.least_rate() <= rate <= 1:
            raise Mistake(
                f"the rate of false accepts is {rate:g}; {self.impostor_pairs:,} pairs of two classes were measured, "
                f"so give {round_up(self.least_rate()):g} to 1."
            )
        place = bisect_left(range(len(self.cosines) - 1), True, key=lambda k: self.false_accepts[k] <= rate)
        return Decision(
            cosine >= self.cosines[place],
            cosine,
            self.cosines[place],
            self.false_accepts[place],
            self.true_accepts[place],
            self.confidence_at(cosine),
        )

    def confidence_at(self, cosine: float) -> float:
        """Return the measured share at this cosine: that of the last row of the table which is not above it."""
        return self.confidence[max(0, bisect_right(self.cosines, cosine) - 1)]

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it, with its digest: a table with one other figure would decide otherwise."""
        found = asdict(self)
        return found | {DIGEST: digest_of(found)}


def digest_of(found: dict[str, Any]) -> str:
    """Return the digest of what a calibration holds."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def round_up(rate: float) -> float:
    """Return a rate with two digits that is not smaller."""
    digits = 2 - math.floor(math.log10(rate)) - 1
    return math.ceil(rate * 10**digits * (1 - 1e-12)) / 10**digits


def calibration_from(payload: Any, where: str, remedy: str = "remove it, and it is measured again") -> Calibration:
    """Return what JSON says; `where` it was found, and what to do, stand in the refusal."""
    try:
        columns = {name: tuple(float(value) for value in payload[name]) for name in COLUMNS}
        words = str(payload["fingerprint"]), str(payload["images"])
        calibration = Calibration(*words, int(payload["genuine_pairs"]), int(payload["impostor_pairs"]), **columns)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise Mistake(f"{where} is no calibration ({error!r}); {remedy}.") from None
    if len({len(values) for values in columns.values()}) != 1 or not calibration.cosines:
        raise Mistake(f"{where} has columns of different lengths; {remedy}.")
    if calibration.impostor_pairs < 1 or list(calibration.cosines) != sorted(calibration.cosines):
        raise Mistake(f"{where} makes no sense; {remedy}.")
    if payload.get(DIGEST) != calibration.plain()[DIGEST]:
        raise Mistake(f"{where} is not as it was written; {remedy}.")
    return calibration
