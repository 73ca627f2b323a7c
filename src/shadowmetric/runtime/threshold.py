"""From the cosine of two images to "the same" or not, by what was measured on images with known classes.

A calibration is a table: cosines in rising order, and for each

    false_accepts   share of the pairs of two classes whose cosine is at least this    (falls)
    true_accepts    share of the pairs of one class whose cosine is at least this      (falls)
    confidence      share of such pairs that are of one class, if both kinds are equally frequent   (rises)

Whoever compares images knows how often they show the same: the prior p. By Bayes, two images with the confidence c do
so with the probability c p / (c p + (1 - c)(1 - p)), and are called the same from one half on. Or a rate of false
accepts is wanted: then they are from the smallest cosine of the table on whose share is at most that.
"""

import hashlib
import json
import math
from bisect import bisect_left, bisect_right
from dataclasses import asdict, dataclass
from typing import Any

from .counting import count
from .errors import Mistake

DIGEST = "sha256"
COLUMNS = ("cosines", "false_accepts", "true_accepts", "confidence")


EVEN = 0.5  # a prior, and the least probability of what is called the same


@dataclass(frozen=True)
class Decision:
    """Whether two images show the same, and how probable that is."""

    same: bool
    probability: float  # that they are of one class
    prior: float  # of the pairs that somebody compares
    cosine: float
    threshold: float | None  # the smallest cosine that is called the same; None if none is
    false_accept_rate: float  # measured, at the threshold
    true_accept_rate: float


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

    def decide(self, cosine: float, rate: float | None = None, prior: float = EVEN) -> Decision:
        """Return the decision at a prior: by the probability, or at the threshold with a rate of false accepts."""
        if not 0 < prior < 1:
            raise Mistake(f"the prior is {prior:g}; it is the share of your pairs that show the same, such as 0.1.")
        if rate is not None and not self.least_rate() <= rate <= 1:
            pairs = count(self.impostor_pairs, "pair of two classes was", "pairs of two classes were")
            least = f"{round_up(self.least_rate()):g}"
            raise Mistake(f"the rate of false accepts is {rate:g}; {pairs} measured, so give {least} to 1.")
        probability = at_prior(self.confidence_at(cosine), prior)
        if rate is not None:
            place = bisect_left(self.false_accepts[:-1], True, key=lambda share: share <= rate)
            same = cosine >= self.cosines[place]
        else:
            place = bisect_left(self.confidence, True, key=lambda share: at_prior(share, prior) >= EVEN)
            same = probability >= EVEN
        if place == len(self.cosines):  # so rare that no pair is alike enough
            return Decision(False, probability, prior, cosine, None, 0.0, 0.0)
        at_threshold = self.cosines[place], self.false_accepts[place], self.true_accepts[place]
        return Decision(same, probability, prior, cosine, *at_threshold)

    def confidence_at(self, cosine: float) -> float:
        """Return the measured share at this cosine: that of the last row of the table which is not above it."""
        return self.confidence[max(0, bisect_right(self.cosines, cosine) - 1)]

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it, with its digest: a table with one other figure would decide otherwise."""
        found = asdict(self)
        return found | {DIGEST: digest_of(found)}


def at_prior(confidence: float, prior: float) -> float:
    """Return the probability that two images show the same, of the one if both kinds of pairs were equally frequent."""
    same, other = confidence * prior, (1 - confidence) * (1 - prior)
    return same / (same + other)


def in_words(decision: Decision, rate: float | None = None) -> list[str]:
    """Return a decision in sentences for whoever compares two images; rate: as it was asked for."""
    sentences = [
        "the same" if decision.same else "different",
        f"Pairs as alike as these show the same in {cases(decision.probability)} of 100 cases, if "
        f"{often(decision.prior)} pairs that you compare do (--prior {decision.prior:g}).",
    ]
    if rate is not None and decision.same != (decision.probability >= EVEN):
        sentences.append(
            f"--false-accept-rate {rate:g} {'is content with that' if decision.same else 'asks for more than that'}."
        )
    return sentences


def explanation(decision: Decision, calibration: Calibration, rate: float | None = None) -> list[str]:
    """Return what a decision rests on, in sentences for whoever knows what a cosine is."""
    pairs = f"{count(calibration.genuine_pairs, 'pair')} of one class and {calibration.impostor_pairs:,} of two"
    measured = f"Measured on {pairs}: {calibration.images}."
    if decision.threshold is None:
        rare = (
            f"The cosine is {decision.cosine:.3f}, and none would be enough: so many pairs cannot show what is so rare."
        )
        return [rare, measured]
    why = "where it is as likely as not" if rate is None else f"as --false-accept-rate {rate:g} asks"
    return [
        f"The cosine is {decision.cosine:.3f}; from {decision.threshold:.3f} on images are called the same, {why}.",
        f"As alike are {percent(decision.false_accept_rate)} of the pairs of two classes, which are taken for one, and "
        f"{percent(decision.true_accept_rate)} of the pairs of one class.",
        measured,
    ]


def cases(probability: float) -> str:
    """Return a probability as cases of a hundred, never rounded over one half."""
    if probability < 0.01:
        return "fewer than 1"
    return "99 or more" if probability >= 0.99 else f"{math.floor(100 * probability)}"


def often(share: float) -> str:
    """Return a share as people say it: 50 in 100, 1 in 2,000."""
    return f"{100 * share:g} in 100" if share >= 0.01 else f"1 in {1 / share:,.0f}"


def percent(share: float) -> str:
    """Return a share with two digits that count."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %" if share < 0.99 else f"{100 * share:.4g} %"


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
