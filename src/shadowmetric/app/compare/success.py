"""Did training help? The first sentence about a comparison: the losses beside what was never trained.

A loss is clearly above a floor if the paired interval of their difference over queries lies above 0, and so does
Student's interval over seeds, where there are two seeds or more. The sentence leads with the weakest of those losses
and the highest floor, so that no luck of having chosen the best of several is in it.
"""

from collections.abc import Sequence

from shadowmetric.app.compare.compare import Lead, Row

MEASURE = "recall_at_1"
SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def about_training(rows: Sequence[Row], test: str = "") -> str:
    """Say whether the losses are above the floors; nothing if either is missing. test: what was searched, in words."""
    losses = by_recall(rows, "loss")
    floors = by_recall(rows, "floor")
    if not losses or not floors:
        return ""
    clear = [row for row in losses if is_clear(row, floors)]
    if not clear:
        return about_failure(losses, floors)
    where = f"on {test}, " if test else ""
    who = clear[0].name if len(losses) == 1 else f"all {count(len(losses))} losses"
    opening = f"Training helps: {where}{who} {'is' if len(losses) == 1 else 'are'} above {names(floors)}."
    if len(clear) < len(losses):
        others = [f"{row.name} ({100 * recall(row):.2f} %)" for row in losses if row not in clear]
        opening = (
            f"Training helps with {count(len(clear))} of {count(len(losses))} losses: {where}"
            f"{'it is' if len(clear) == 1 else 'they are'} above {names(floors)}; not above these by more than the "
            f"noise: {', '.join(others)}."
        )
    return f"{opening} {about_weakest(clear, floors[0])}"


def about_failure(losses: Sequence[Row], floors: Sequence[Row]) -> str:
    """Name the floors that no loss is clearly above."""
    above = [floor for floor in floors if recall(floor) >= recall(losses[0])]
    if above:
        return (
            f"No loss is above {names(above, ' or ')}, which {'is' if len(above) == 1 else 'are'} not trained at all."
        )
    unclear = [floor for floor in floors if not any(is_clear(row, [floor]) for row in losses)] or list(floors)
    return (
        f"Whether training helps is open: no loss is above {names(unclear, ' or ')}, not trained at all, by more than "
        "the noise of queries and seeds."
    )


def is_clear(row: Row, floors: Sequence[Row]) -> bool:
    """Return whether a row is above every floor by more than the noise."""
    return all(floor.name in row.leads and row.leads[floor.name].is_clear for floor in floors)


def about_weakest(clear: Sequence[Row], floor: Row) -> str:
    """Say how sure the lead of the weakest of those losses is, and where the best one is."""
    weakest, best = clear[-1], clear[0]
    least, most = (f"{100 * recall(row):.2f} %" for row in (weakest, best))
    lead = weakest.leads[floor.name]
    sentence = f"leads {floor.name} by {100 * lead.queries.difference:.2f} points ({intervals(lead)})"
    if weakest is best:
        return f"{best.name} reaches {most} and {sentence}."
    return f"The weakest of them, {weakest.name} with {least}, {sentence}; the best is {best.name} with {most}."


def intervals(lead: Lead) -> str:
    """Say how sure a lead is."""
    over_queries = f"95 % interval {100 * lead.queries.low:+.2f} to {100 * lead.queries.high:+.2f} over queries"
    low, high, seeds = lead.seeds.low, lead.seeds.high, lead.seeds.seeds
    if low is None or high is None:
        return f"{over_queries}; one seed says nothing about the noise of training"
    return f"{over_queries}, {100 * low:+.2f} to {100 * high:+.2f} over {seeds} seeds"


def by_recall(rows: Sequence[Row], kind: str) -> list[Row]:
    """Return the rows of a kind that have a Recall@1, the highest first."""
    return sorted((row for row in rows if row.kind == kind and row.figures.get(MEASURE)), key=recall, reverse=True)


def names(rows: Sequence[Row], between: str = " and ") -> str:
    """Return rows with their Recall@1, which the first one names."""
    figures = [f"{100 * recall(row):.2f} %" for row in rows]
    words = [f"{row.name} ({text})" for row, text in zip(rows, figures, strict=True)]
    return between.join([f"{rows[0].name} ({figures[0]} Recall@1)", *words[1:]])


def recall(row: Row) -> float:
    """Return the mean Recall@1, or less than any if there is none."""
    mean = row.mean(MEASURE)
    return -1.0 if mean is None else mean


def count(number: int) -> str:
    """Return a small number as a word."""
    return SMALL[number] if number < len(SMALL) else str(number)
