"""What the figures say: whether training helped, which loss leads, by how much, and whether that is more than noise.

Three noises count: that of the queries (the paired interval holds 0), that of the seeds (the interval of their own
differences holds 0), and that of one training (how far Shadow and twice Shadow, which AdamW cannot tell apart, lie from
one another).
"""

from shadowmetric.app.compare.compare import Row
from shadowmetric.app.compare.seed_intervals import interval
from shadowmetric.app.compare.success import MEASURE, about_training, recall
from shadowmetric.app.compare.wording import describe_test, factor_matters, seed_differences
from shadowmetric.app.report.collect import Group
from shadowmetric.app.training.runs.headline import NEAREST, headline


def summary(group: Group) -> str:
    """Say whether training helped; then which loss leads, and whether this is inside the noise."""
    return " ".join(paragraphs(group))


def paragraphs(group: Group) -> list[str]:
    """Return the same, a paragraph each."""
    return [words for words in (use_words(group), training_words(group), lead_words(group)) if words]


def use_words(group: Group) -> str:
    """Say first how it will be used: by the nearest training image, where training and test share their classes."""
    finished = [member for member in group.members if member.scores]
    if len(finished) == 1:
        return " ".join(headline(finished[0].scores or {}))
    reached = {row.name: row.mean(NEAREST) for row in group.rows if row.kind != "control"}
    known = {name: share for name, share in reached.items() if share is not None}
    if not known:
        return ""
    inside = (headline_interval(group, name) for name in known)
    best_first = sorted(zip(known.items(), inside, strict=True), key=lambda one: -one[0][1])
    figures = ", ".join(f"{name} {100 * share:.2f} %{between}" for (name, share), between in best_first)
    return (
        "Training and test share their classes, so the question in use is whether the nearest training image of a test "
        f"image has its class: {figures}."
    )


def headline_interval(group: Group, name: str) -> str:
    """Return the interval over test images of a row with one seed; of several seeds their spread."""
    (row,) = (row for row in group.rows if row.name == name)
    spread = row.spread(NEAREST)
    if spread is not None:
        return f" ± {100 * spread:.2f}"
    for member in group.members:
        between = ((member.scores or {}).get("intervals") or {}).get(NEAREST)
        if member.name == name and between:
            return f" ({100 * between[0]:.2f} to {100 * between[1]:.2f})"
    return ""


def training_words(group: Group) -> str:
    """Say whether the losses are above what was never trained, if that is there."""
    return about_training(group.rows, "" if group.plan is None else describe_test(group.plan))


def lead_words(group: Group) -> str:
    """Say which loss leads, and whether this is inside the noise."""
    losses = sorted((row for row in group.rows if row.kind == "loss"), key=recall, reverse=True)
    losses = [row for row in losses if row.figures.get(MEASURE)]
    if not losses:
        return "No run is finished, so there are no test figures yet."
    first = losses[0]
    opening = f"{first.name} reaches {100 * recall(first):.2f} % Recall@1"
    if len(losses) == 1:
        return f"{opening}{over(first)}{protocol_words(group)}."
    second = losses[1]
    lead = 100 * (recall(first) - recall(second))
    if lead == 0:
        return f"{first.name} and {second.name} both reach {100 * recall(first):.2f} % Recall@1{over(first)}."
    sentence = f"{opening}{over(first)} and leads {second.name} by {lead:.2f} points"
    return f"{sentence}{verdict(group, first, second)}"


def protocol_words(group: Group) -> str:
    """Say what test images are searched in: the same embedder has another Recall@1 in each."""
    for member in group.members:
        protocol = ((member.scores or {}).get("setting") or {}).get("protocol")
        if protocol is not None:
            return ", each test image searched among the others" if protocol == "leave-one-out" else " in a gallery"
    return ""


def verdict(group: Group, first: Row, second: Row) -> str:
    """Say whether the lead is inside the noise of the queries, of training, or neither."""
    if group.plan is None:
        return "; runs that are no comparison are not paired, so whether that is more than noise is open."
    reference = group.plan.losses[0]
    if reference in (first.name, second.name):
        return judge_lead(group, second if first.name == reference else first, recall(first) - recall(second))
    third = next((row for row in group.rows if row.name == reference), None)
    if third is None or first.beside is None:
        return "."
    lead = recall(first) - recall(third)
    return f", and {reference}, the reference, by {100 * lead:.2f}{judge_lead(group, first, lead)}"


def judge_lead(group: Group, row: Row, lead: float) -> str:
    """Say whether a lead is noise; row: the one of the two that is not the reference."""
    noise, test, reasons = training_noise(group), row.beside, []
    if test is None:
        return "."
    over_queries = interval_words("queries", test.low, test.high, test.difference)
    if test.inside_the_noise:
        reasons.append(f"the {over_queries} holds 0")
    seeds = interval(row.seed_differences or [test.difference])
    if seeds.low is not None and seeds.high is not None and seeds.sign == 0:
        reasons.append(f"the {interval_words(f'{seeds.seeds} seeds', seeds.low, seeds.high, test.difference)} holds 0")
    if noise is not None and lead <= noise:
        reasons.append(f"shadow and twice shadow, the same but for rounding, differ by up to {100 * noise:.2f}")
    if reasons:
        return f": inside the noise, since {' and '.join(reasons)}."
    beyond = f" and more than the {100 * noise:.2f} points that training noise makes" if noise is not None else ""
    alone = "; one seed says nothing about the noise of training" if len(row.seed_differences) == 1 else ""
    return f" ({over_queries}), more than the noise of the queries{beyond}{alone}."


def interval_words(over: str, low: float, high: float, difference: float) -> str:
    """Say an interval of the leader's lead: with the sign turned, if the leader is the reference."""
    low, high = (low, high) if difference > 0 else (-high, -low)
    return f"95 % interval over {over} {100 * low:+.2f} to {100 * high:+.2f}".replace("-", "−")


def training_noise(group: Group) -> float | None:
    """Return the largest difference of a seed between Shadow and twice Shadow, if it is noise and known."""
    if group.plan is None or factor_matters(group.plan):
        return None
    differences = seed_differences(group.plan, "shadow", "double_shadow")
    return max(map(abs, differences)) if differences else None


def over(row: Row) -> str:
    """Say over how many seeds a mean is."""
    seeds = len(row.figures[MEASURE])
    return f" in the mean of {seeds} seeds" if seeds > 1 else " with one seed"
