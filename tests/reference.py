"""Every miner, loss and measure as plain loops: the truth that the rest of the library is tested against.

How to read it. A miner is a function of (embeddings, labels) that returns row numbers, a list of (anchor, positive,
negative). A loss is a function that returns one number, a 0-d tensor. A measure takes embeddings and labels, or what
another measure found, and returns Python numbers. All are written straight from the definition, one pair or one
triplet at a time, so that each can be checked by eye. Nothing here is fast: use at most 40 rows.

Conventions of miners and losses:

    candidates    the rows of the batch except the anchor; with `references`, the reference rows instead, except a
                  row that equals the anchor and has its label: that is the anchor itself
    **references  stands for the arguments references= and reference_labels=, both or neither
    same_class    the candidates with the anchor's label, the possible positives; `other_class` are the rest
    normalize     compare unit rows, row / |row|; otherwise the rows as they come. A zero row stays zero
    distances     of miners: those of rows on the grid (docs/semantics.md), one number on every machine
    ties          the smaller row number wins
    zero          a loss with nothing to average is 0 and still has the graph of the embeddings

Conventions of measures:

    similarity    the cosine, always on unit rows; a zero row has cosine 0 with every row, itself included
    gallery       the rows that a query is compared with. Without one, leave one out: the gallery is the other queries.
                  With one, every row of it counts, also a row that equals the query
    relevant      the gallery items with the query's label; a query without any is a lone query, its ranks are []
    ties          decided by similarity and label, never by row number, so the order of the gallery changes nothing
    NaN           what has nothing to average, as any measure of a lone query

Miners and measures need no gradient, so they compute with Python floats and exactly rounded sums: equal rows are then
equally far, wherever they stand in memory. Losses compute with 0-d tensors, so that autograd gives the reference
gradient.
"""

import math
from fractions import Fraction

import torch
from torch import Tensor

COSINE_EDGE = 1e-7  # arccos has an infinite slope at -1 and 1; cosines stay this far inside
DEAD_SHARE = 1e-3  # a dimension is dead if it deviates less than this share of the liveliest one
COLLAPSED_VARIANCE = 1e-12  # rows are one point if no dimension varies more than this

Triplet = tuple[int, int, int]


# Who may be compared with whom


def classes_around(embeddings, labels, references=None, reference_labels=None) -> list[tuple[list[int], list[int]]]:
    """Return for each anchor its (same_class, other_class): two lists of candidate row numbers."""
    if isinstance(labels, Known):
        return known_around(embeddings, labels, references, reference_labels)
    candidate_labels = (labels if references is None else reference_labels).tolist()
    around = []
    for a, label in enumerate(labels.tolist()):
        same_class, other_class = [], []
        for x, candidate_label in enumerate(candidate_labels):
            is_anchor = x == a if references is None else torch.equal(references[x], embeddings[a])
            if candidate_label != label:
                other_class.append(x)
            elif not is_anchor:
                same_class.append(x)
        around.append((same_class, other_class))
    return around


class Known:
    """A relation as plain Python: what is known of each row, the grade of two of these, and who is positive.

    positive, negative: of a grade. Where a reference is the anchor itself the pair is neither.
    """

    def __init__(self, rows: list, grade, positive=lambda grade: grade > 0, negative=lambda grade: grade <= 0):
        self.rows, self.grade, self.positive, self.negative = rows, grade, positive, negative

    def __len__(self) -> int:
        return len(self.rows)


def known_around(embeddings, known, references=None, reference_known=None) -> list[tuple[list[int], list[int]]]:
    """The same of a relation: (positives, negatives) of each anchor."""
    others = known if references is None else reference_known
    around = []
    for a, mine in enumerate(known.rows):
        positives, negatives = [], []
        for x, theirs in enumerate(others.rows):
            if x == a if references is None else torch.equal(references[x], embeddings[a]):
                continue
            grade = known.grade(mine, theirs)
            if known.positive(grade):
                positives.append(x)
            if known.negative(grade):
                negatives.append(x)
        around.append((positives, negatives))
    return around


def shared_labels(one: list[int], two: list[int]) -> float:
    """|A and B| / |A or B| of two lists of bits; 0 if both are empty."""
    shared = sum(a and b for a, b in zip(one, two, strict=True))
    either = sum(a or b for a, b in zip(one, two, strict=True))
    return shared / either if either else 0.0


def shared_levels(one: list[int], two: list[int]) -> float:
    """How many levels two paths have in common before they part, as a share of all."""
    common = 0
    while common < len(one) and one[common] == two[common]:
        common += 1
    return common / len(one)


def listed_grade(listed: dict[tuple[int, int], float], highest: float):
    """The grade of two items: the highest of an item with itself, what is listed in either order, or 0."""
    return lambda one, two: highest if one == two else listed.get((one, two), listed.get((two, one), 0.0))


def graded_triplet(embeddings, labels, triplets, *, margin=0.2, graded=False, highest=1.0, **reference_known) -> Tensor:
    """Mean of max(|a - p|^2 - |a - n|^2 + margin of a * (grade(a, p) - grade(a, n)) / highest, 0).

    margin: one, or a dictionary by the label of the anchor.
    """
    references, others = reference_known.get("references"), reference_known.get("reference_labels", labels)
    values = []
    for (a, p, n), excess in zip(
        triplets, excesses(squared_distance, embeddings, triplets, True, references), strict=True
    ):
        own = margin[int(labels[a])] if isinstance(margin, dict) else margin
        if graded:
            mine = labels.rows[a]
            own = own * (labels.grade(mine, others.rows[p]) - labels.grade(mine, others.rows[n])) / highest
        values.append(torch.relu(excess + own))
    return reduced(values, embeddings)


# Miners


GRID = 2**24  # steps of the grid in a row's length, or in the power of two above it where rows stay as they are
FINE = 2**22  # steps of the second part in one of the first

GridRow = tuple[list[float], list[float]]  # the first part and the second; the second is zeros if one is enough


def length_of(row: list[float]) -> float:
    """|row|, its squares added half onto half, so that every machine rounds alike."""
    squares = [value * value for value in row]
    while len(squares) > 1:
        half = (len(squares) + 1) // 2
        squares = [sum(squares[i::half]) for i in range(half)]
    return math.sqrt(squares[0])


def grid_row(row: list[float], *, normalize: bool, fine: bool) -> GridRow:
    """The row, or the unit row, in multiples of a step so large that float64 adds products without rounding."""
    length = length_of(row)
    if normalize and length > 0:
        row = [value / length for value in row]
    step = (1 if normalize else 2.0 ** math.frexp(length)[1]) / GRID
    first = [float(round(value / step)) for value in row]
    second = [
        round((value / step - near) * FINE) / FINE if fine else 0.0 for value, near in zip(row, first, strict=True)
    ]
    return [value * step for value in first], [value * step for value in second]


def float_rows(rows: Tensor) -> list[list[float]]:
    """Return unit rows on the grid, as measures compare them."""
    return [grid_row(row, normalize=True, fine=False)[0] for row in rows.tolist()]


def unit_rows(rows: Tensor) -> list[list[float]]:
    """Return unit rows with all their digits, for what is summed and not ranked."""
    lengths = [math.hypot(*row) or 1.0 for row in rows.tolist()]
    return [[value / length for value in row] for row, length in zip(rows.tolist(), lengths, strict=True)]


def grid_dot(a: GridRow, x: GridRow) -> float:
    """a . x: of the first parts, and then of each first with the other's second."""
    (first, second), (other_first, other_second) = a, x
    cross = zip([*first, *second], [*other_second, *other_first], strict=True)
    return float_dot(first, other_first) + math.fsum(left * right for left, right in cross)


def float_dot(a: list[float], x: list[float]) -> float:
    return math.fsum(left * right for left, right in zip(a, x, strict=True))


def squared_distances(embeddings, normalize, references=None, reference_labels=None) -> list[list[float]]:
    """Return |a - x|^2 for each anchor a and candidate x, on the grid; a zero row has no direction, as unit row."""
    both = [embeddings] if references is None else [embeddings, references]
    fine = not normalize or torch.float64 in {rows.dtype for rows in both}
    sides = [[grid_row(row, normalize=normalize, fine=fine) for row in rows.tolist()] for rows in both]
    squares = [[grid_dot(row, row) or float(normalize) for row in rows] for rows in sides]
    return [
        [max(square + other - 2 * grid_dot(a, x), 0.0) for x, other in zip(sides[-1], squares[-1], strict=True)]
        for a, square in zip(sides[0], squares[0], strict=True)
    ]


def compared(embeddings, normalize, unit, references=None, reference_labels=None) -> list[list[float]]:
    """Return for each anchor a and candidate x the number that miners compare in a unit.

    Gaps of rows as they are: |a| gap(a, x) = | |a|^2 - a.x |. Angles: the squared distances of unit rows, which have
    their order. All else, gaps of unit rows included, which are half of it: squared distances.
    """
    if unit != "gap" or normalize:
        return squared_distances(embeddings, normalize or unit == "angle", references, reference_labels)
    both = [embeddings] if references is None else [embeddings, references]
    sides = [[grid_row(row, normalize=False, fine=True) for row in rows.tolist()] for rows in both]
    return [[abs(grid_dot(a, a) - grid_dot(a, x)) for x in sides[-1]] for a in sides[0]]


def closest(distances: list[float], candidates: list[int]) -> int:
    return min(candidates, key=lambda x: (distances[x], x))


def farthest(distances: list[float], candidates: list[int]) -> int:
    return min(candidates, key=lambda x: (-distances[x], x))


def all_triplets(embeddings, labels, *, normalize=True, unit="squared", **references) -> list[Triplet]:
    """Every (a, p, n). `normalize` and `unit` change nothing and are here so that all miners are called alike."""
    around = enumerate(classes_around(embeddings, labels, **references))
    return [(a, p, n) for a, (same_class, other_class) in around for p in same_class for n in other_class]


def hard(embeddings, labels, *, normalize=True, unit="squared", **references) -> list[Triplet]:
    """Every positive of an anchor, with the anchor's closest negative."""
    distances = compared(embeddings, normalize, unit, **references)
    triplets = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        for p in same_class:
            if other_class:
                triplets.append((a, p, closest(distances[a], other_class)))
    return triplets


def batch_hard(embeddings, labels, *, normalize=True, unit="squared", **references) -> list[Triplet]:
    """Each anchor's farthest positive, with its closest negative."""
    distances = compared(embeddings, normalize, unit, **references)
    triplets = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        if same_class and other_class:
            triplets.append((a, farthest(distances[a], same_class), closest(distances[a], other_class)))
    return triplets


def in_window(positive: float, negative: float, margin: float, unit: str, gap_scale: float) -> bool:
    """Is the negative farther than the positive, by less than the margin? Both are numbers as `compared` has them.

    gap_scale: what a gap is multiplied by there: 2 of unit rows, |a| of rows as they are.
    """
    ends = {
        "squared": lambda: negative < positive + margin,
        "gap": lambda: negative < positive + gap_scale * margin,
        "distance": lambda: negative < square(math.sqrt(positive) + margin),
        "angle": lambda: angle_of(negative) < angle_of(positive) + margin,
    }
    return positive < negative and ends[unit]()


def angle_of(squared: float) -> float:
    """The angle of two unit rows at a squared distance; two opposite rows are at pi, however they were rounded."""
    return 2 * math.asin(min(math.sqrt(squared) / 2, 1.0))


def square(value: float) -> float:
    return value * value


def semi_hard(
    embeddings,
    labels,
    *,
    margin=0.2,
    negatives="nearest",
    positives="every",
    unit="squared",
    fallback="drop",
    normalize=True,
    **references,
) -> list[Triplet]:
    """For each (a, p), the closest negative in the window behind p, or all of them."""
    assert negatives in ("nearest", "all")
    assert positives in ("every", "nearest", "farthest")
    assert fallback == "drop" or (fallback == "farthest" and negatives == "nearest")
    distances = compared(embeddings, normalize, unit, **references)
    anchors = [grid_row(row, normalize=normalize, fine=True) for row in embeddings.tolist()]
    scale = [2.0 if normalize else math.sqrt(grid_dot(a, a)) for a in anchors]
    triplets = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        if positives == "nearest" and same_class:
            same_class = [closest(distances[a], same_class)]
        if positives == "farthest" and same_class:
            same_class = [farthest(distances[a], same_class)]
        for p in same_class:
            window = [n for n in other_class if in_window(distances[a][p], distances[a][n], margin, unit, scale[a])]
            if window and negatives == "nearest":
                window = [closest(distances[a], window)]
            if not window and other_class and fallback == "farthest":
                window = [farthest(distances[a], other_class)]
            triplets += [(a, p, n) for n in window]
    return triplets


GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of splitmix64


def mixed(number: int) -> int:
    """Return 64 mixed bits of a number."""
    number = (number + GOLDEN) % 2**64
    number = (number ^ (number >> 30)) * FIRST % 2**64
    number = (number ^ (number >> 27)) * SECOND % 2**64
    return number ^ (number >> 31)


def distance_weighted(
    embeddings, labels, *, nearest=0.5, farthest=1.4, seed=0, references=None, reference_labels=None
) -> list[Triplet]:
    """For each (a, p) a negative, drawn with weights 1 / q(d), q(d) = d^(n-2) (1 - d^2/4)^((n-3)/2), n = dim.

    d is at least `nearest`; beyond `farthest` the weight is 0, and if all are beyond, each weighs the same. A pair's
    chance is mixed from the seed, all labels and the numbers of its rows.
    """
    against = {} if references is None else {"references": references, "reference_labels": reference_labels}
    squared = squared_distances(embeddings, True, **against)
    dim, others = embeddings.shape[1], (labels if references is None else reference_labels).tolist()
    salt = sum(mixed(mixed(label + seed * FIRST) + x * GOLDEN) for x, label in enumerate(others))
    triplets = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **against)):
        near = [n for n in other_class if squared[a][n] < farthest**2]
        values = {n: max(squared[a][n], nearest**2) for n in near}
        logs = {n: (2 - dim) / 2 * math.log(d) - (dim - 3) / 2 * math.log(1 - d / 4) for n, d in values.items()}
        weights = {n: round(2**30 * math.exp(log - max(logs.values()))) for n, log in logs.items()}
        weights = weights or dict.fromkeys(other_class, 1)
        for p in same_class:
            if weights:
                bits = mixed(mixed(mixed(salt + seed) + a * GOLDEN) + p * GOLDEN)
                left = math.floor((bits >> 11) * 2.0**-53 * sum(weights.values()))
                chosen = iter(weights.items())
                n, weight = next(chosen)
                while left >= weight:
                    left -= weight
                    n, weight = next(chosen)
                triplets.append((a, p, n))
    return triplets


# Arithmetic of the losses: rows are (dim,) tensors, values are 0-d tensors


def prepared(rows: Tensor, normalize: bool) -> list[Tensor]:
    """Return the rows one by one, each of length 1 if `normalize`."""
    return [unit(row) if normalize else row for row in rows]


def unit(row: Tensor) -> Tensor:
    """The row's direction, whatever its scale; a zero row has none, and no gradient."""
    scale = row.detach().abs().max()
    return row / scale / (row / scale).norm() if scale > 0 else row * 0


def prepared_pair(embeddings, normalize, references=None, reference_labels=None) -> tuple[list[Tensor], list[Tensor]]:
    """Return the anchors and the candidates; without references they are the same rows."""
    anchors = prepared(embeddings, normalize)
    return anchors, anchors if references is None else prepared(references, normalize)


def dot(a: Tensor, x: Tensor) -> Tensor:
    return (a * x).sum()


def squared_distance(a: Tensor, x: Tensor) -> Tensor:
    return ((a - x) ** 2).sum()


def distance(a: Tensor, x: Tensor) -> Tensor:
    squared = squared_distance(a, x)
    return squared.sqrt() if squared > 0 else squared * 0


def gap(a: Tensor, x: Tensor) -> Tensor:
    """How far the shadow of x on a ends from the tip of a: | |a| - a.x / |a| |."""
    length = a.norm()
    return (length - dot(a, x) / length).abs() if length > 0 else length * 0


def angle(a: Tensor, x: Tensor) -> Tensor:
    """The angle in radians between two unit rows."""
    return dot(a, x).clamp(-1 + COSINE_EDGE, 1 - COSINE_EDGE).arccos()


def log_sum_exp(exponents: list[Tensor]) -> Tensor:
    return torch.logsumexp(torch.stack(exponents), dim=0)


def log_one_plus_sum_exp(exponents: list[Tensor], like: Tensor) -> Tensor:
    """log(1 + sum of exp); the one is exp(0). It is 0 if there are no exponents."""
    return log_sum_exp([like.new_zeros(()), *exponents])


def reduced(values: list[Tensor], embeddings: Tensor, reduction: str = "mean") -> Tensor:
    """Return the values' mean, sum or mean over those above zero; 0 with a graph if there are none."""
    if reduction not in ("mean", "sum", "mean_nonzero"):
        raise ValueError(f"reduction is mean, sum or mean_nonzero, not {reduction!r}")
    if reduction == "mean_nonzero":
        values = [value for value in values if value > 0]
    total = sum(values, start=embeddings.sum() * 0)
    return total if reduction == "sum" else total / max(len(values), 1)


# Losses of triplets


def excesses(measure, embeddings, triplets, normalize, references) -> list[Tensor]:
    """Return measure(a, p) - measure(a, n) for each triplet."""
    anchors, candidates = prepared_pair(embeddings, normalize, references)
    return [measure(anchors[a], candidates[p]) - measure(anchors[a], candidates[n]) for a, p, n in triplets]


def shadow(embeddings, triplets, *, margin=0.2, normalize=True, reduction="mean", references=None) -> Tensor:
    """max(gap(a, p) - gap(a, n) + margin, 0)."""
    excess = excesses(gap, embeddings, triplets, normalize, references)
    return reduced([torch.relu(value + margin) for value in excess], embeddings, reduction)


def triplet(
    embeddings, triplets, *, margin=0.2, squared=True, normalize=True, reduction="mean", references=None
) -> Tensor:
    """max(|a - p|^2 - |a - n|^2 + margin, 0), or the same of the distances themselves."""
    excess = excesses(squared_distance if squared else distance, embeddings, triplets, normalize, references)
    return reduced([torch.relu(value + margin) for value in excess], embeddings, reduction)


def soft_margin_triplet(
    embeddings, triplets, *, margin=0.0, normalize=True, reduction="mean", references=None
) -> Tensor:
    """log(1 + exp(|a - p| - |a - n| + margin))."""
    excess = excesses(distance, embeddings, triplets, normalize, references)
    return reduced([log_one_plus_sum_exp([value + margin], embeddings) for value in excess], embeddings, reduction)


def angular_triplet(embeddings, triplets, *, margin=0.2, normalize=True, reduction="mean", references=None) -> Tensor:
    """max(angle(a, p) - angle(a, n) + margin, 0). An angle knows no lengths: `normalize` changes nothing."""
    excess = excesses(angle, embeddings, triplets, True, references)
    return reduced([torch.relu(value + margin) for value in excess], embeddings, reduction)


# Losses of whole rows


def angular(embeddings, labels, *, degrees=45.0, normalize=True, triplets=None) -> Tensor:
    """Mean over (a, p) of log(1 + sum over n of exp(4k (a+p).n - 2(1+k) a.p)), k = tan(degrees)^2.

    With triplets, the mean over them of the same with one n.
    """
    rows = prepared(embeddings, normalize)
    k = math.tan(math.radians(degrees)) ** 2

    def exponent(a: int, p: int, n: int) -> Tensor:
        return 4 * k * dot(rows[a] + rows[p], rows[n]) - 2 * (1 + k) * dot(rows[a], rows[p])

    if triplets is not None:
        return reduced([log_one_plus_sum_exp([exponent(a, p, n)], embeddings) for a, p, n in triplets], embeddings)
    values = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels)):
        for p in same_class:
            values.append(log_one_plus_sum_exp([exponent(a, p, n) for n in other_class], embeddings))
    return reduced(values, embeddings)


def n_pair(embeddings, labels, *, l2_weight=0.0, temperature=1.0, normalize=True, **references) -> Tensor:
    """Mean over (a, p) of log(1 + sum over n of exp((a.n - a.p) / temperature)), + l2_weight * mean of |row|^2."""
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    values = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        similarity = [dot(anchors[a], x) / temperature for x in candidates]
        for p in same_class:
            values.append(log_one_plus_sum_exp([similarity[n] - similarity[p] for n in other_class], embeddings))
    lengths = [dot(row, row) for row in embeddings]
    return reduced(values, embeddings) + l2_weight * reduced(lengths, embeddings)


def lifted_structure(embeddings, labels, *, margin=1.0, normalize=True) -> Tensor:
    """Mean over positive pairs (i, j) of max(J, 0)^2 / 2, where

    J = log(sum over n of i of exp(margin - d_in) + sum over n of j of exp(margin - d_jn)) + d_ij.
    """
    rows = prepared(embeddings, normalize)
    around = classes_around(embeddings, labels)
    values = []
    for i, (same_class, _) in enumerate(around):
        for j in same_class:
            exponents = [margin - distance(rows[end], rows[n]) for end in (i, j) for n in around[end][1]]
            values.append(torch.relu(log_sum_exp(exponents) + distance(rows[i], rows[j])) ** 2 / 2 if exponents else 0)
    return reduced(values, embeddings)


def contrastive(
    embeddings, labels, *, margin=1.0, squared=True, normalize=True, reduction="mean", triplets=None, **references
) -> Tensor:
    """Positive pairs cost d^2 / 2, negative pairs max(margin - d, 0)^2 / 2; or d and max(margin - d, 0).

    The two kinds are reduced apart, then added. The pairs are all there are, or the distinct ones of the triplets.
    """
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    if triplets is None:
        around = classes_around(embeddings, labels, **references)
        positive_pairs = [(a, p) for a, (same_class, _) in enumerate(around) for p in same_class]
        negative_pairs = [(a, n) for a, (_, other_class) in enumerate(around) for n in other_class]
    else:
        positive_pairs = sorted({(a, p) for a, p, _ in triplets})
        negative_pairs = sorted({(a, n) for a, _, n in triplets})
    pulls, pushes = [], []
    for a, p in positive_pairs:
        pair = anchors[a], candidates[p]
        pulls.append(squared_distance(*pair) / 2 if squared else distance(*pair))
    for a, n in negative_pairs:
        short = torch.relu(margin - distance(anchors[a], candidates[n]))
        pushes.append(short**2 / 2 if squared else short)
    return reduced(pulls, embeddings, reduction) + reduced(pushes, embeddings, reduction)


def multi_similarity(
    embeddings, labels, *, alpha=2.0, beta=50.0, base=0.5, epsilon=0.1, normalize=True, triplets=None, **references
) -> Tensor:
    """Mean over rows of log(1 + sum_p exp(-alpha (s - base))) / alpha + log(1 + sum_n exp(beta (s - base))) / beta.

    Kept are the positives less similar than the most similar negative + epsilon, and the negatives more similar than
    the least similar positive - epsilon; all of both for an epsilon of None; or, given triplets, each positive and
    negative that they name, once.
    """
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    values = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        similarity = [dot(anchors[a], x) for x in candidates]
        kept_positives, kept_negatives = [], []
        if triplets is not None:
            kept_positives = sorted({p for anchor, p, _ in triplets if anchor == a})
            kept_negatives = sorted({n for anchor, _, n in triplets if anchor == a})
        elif epsilon is None:
            kept_positives, kept_negatives = same_class, other_class
        elif same_class and other_class:
            hardest_positive = min(similarity[p] for p in same_class)
            hardest_negative = max(similarity[n] for n in other_class)
            kept_positives = [p for p in same_class if similarity[p] < hardest_negative + epsilon]
            kept_negatives = [n for n in other_class if similarity[n] > hardest_positive - epsilon]
        pull = log_one_plus_sum_exp([-alpha * (similarity[p] - base) for p in kept_positives], embeddings)
        push = log_one_plus_sum_exp([beta * (similarity[n] - base) for n in kept_negatives], embeddings)
        values.append(pull / alpha + push / beta)
    return reduced(values, embeddings)


def ranked_list(
    embeddings, labels, *, alpha=1.2, margin=0.4, temperature=10.0, balance=0.5, normalize=True, **references
) -> Tensor:
    """Mean over rows of (1 - balance) P + balance N.

    P is the mean of d - (alpha - margin) over the positives where that is above 0. N is the mean of alpha - d over the
    negatives where that is above 0, weighted by exp(temperature (alpha - d)); the weights pass no gradient.
    """
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    values = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        too_far = [distance(anchors[a], candidates[p]) - (alpha - margin) for p in same_class]
        too_near = [alpha - distance(anchors[a], candidates[n]) for n in other_class]
        too_near = [value for value in too_near if value > 0]
        weights = [torch.exp(temperature * value).detach() for value in too_near]
        pull = reduced([value for value in too_far if value > 0], embeddings)
        push = sum(w * value for w, value in zip(weights, too_near, strict=True)) / sum(weights) if weights else 0
        values.append((1 - balance) * pull + balance * push)
    return reduced(values, embeddings)


def sup_con(embeddings, labels, *, temperature=0.1, normalize=True, triplets=None, **references) -> Tensor:
    """Mean over rows with positives of -1/|P| sum over p of log(exp(s_ap / t) / sum over others x of exp(s_ax / t)).

    With triplets, positives and others are those that they name.
    """
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    values = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        if triplets is not None:
            same_class = sorted({p for anchor, p, _ in triplets if anchor == a})
            other_class = sorted({n for anchor, _, n in triplets if anchor == a})
        similarity = [dot(anchors[a], x) / temperature for x in candidates]
        everyone = [similarity[x] for x in same_class + other_class]
        logs = [similarity[p] - log_sum_exp(everyone) for p in same_class]
        values += [-sum(logs) / len(logs)] if logs else []
    return reduced(values, embeddings)


def info_nce(embeddings, labels, *, temperature=0.07, normalize=True, **references) -> Tensor:
    """Mean over (a, p) of -log(exp(s_ap / t) / (exp(s_ap / t) + sum over n of exp(s_an / t)))."""
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    values = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        similarity = [dot(anchors[a], x) / temperature for x in candidates]
        for p in same_class:
            values.append(log_sum_exp([similarity[x] for x in [p, *other_class]]) - similarity[p])
    return reduced(values, embeddings)


def circle(embeddings, labels, *, margin=0.4, scale=80.0, normalize=True, **references) -> Tensor:
    """Mean over rows with both kinds of log(1 + sum over n and p of exp(scale (w_n (s_n - m) - w_p (s_p - 1 + m)))).

    w_n = max(s_n + m, 0) and w_p = max(1 + m - s_p, 0) pass no gradient.
    """
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    values = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        similarity = [dot(anchors[a], x) for x in candidates]
        push = [torch.relu(similarity[n] + margin).detach() * (similarity[n] - margin) for n in other_class]
        pull = [torch.relu(1 + margin - similarity[p]).detach() * (similarity[p] - 1 + margin) for p in same_class]
        if pull and push:
            values.append(log_one_plus_sum_exp([scale * (n - p) for n in push for p in pull], embeddings))
    return reduced(values, embeddings)


def siglip(embeddings, labels, *, scale=10.0, bias=-10.0, normalize=True, triplets=None, **references) -> Tensor:
    """Mean over rows of the sum over others of log(1 + exp(-z (scale s + bias))), z = 1 of positives, else -1."""
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    values = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        if triplets is not None:
            same_class = sorted({p for anchor, p, _ in triplets if anchor == a})
            other_class = sorted({n for anchor, _, n in triplets if anchor == a})
        signs = [(p, 1) for p in same_class] + [(n, -1) for n in other_class]
        logits = [-z * (scale * dot(anchors[a], candidates[x]) + bias) for x, z in signs]
        values.append(sum((log_one_plus_sum_exp([logit], embeddings) for logit in logits), embeddings.sum() * 0))
    return reduced(values, embeddings)


def soft_step(z: Tensor) -> Tensor:
    return torch.sigmoid(z)


def soft_ranks(similarity: list[Tensor], same_class, other_class, temperature) -> list[tuple[Tensor, Tensor]]:
    """Return for each positive p its rank among all, and among positives: 1 + sum over others of G((s_x - s_p) / t)."""
    ranks = []
    for p in same_class:
        one = torch.ones_like(similarity[p])
        steps = {x: soft_step((similarity[x] - similarity[p]) / temperature) for x in [*same_class, *other_class]}
        above = sum((steps[x] for x in same_class if x != p), start=one)
        ranks.append((sum((steps[x] for x in other_class), start=above), above))
    return ranks


def smooth_ap(embeddings, labels, *, temperature=0.01, normalize=True, triplets=None, **references) -> Tensor:
    """Mean over rows with positives of 1 - the mean over these of rank among positives / rank among all."""
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    values = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        if triplets is not None:
            same_class = sorted({p for anchor, p, _ in triplets if anchor == a})
            other_class = sorted({n for anchor, _, n in triplets if anchor == a})
        similarity = [dot(anchors[a], x) for x in candidates]
        ratios = [above / rank for rank, above in soft_ranks(similarity, same_class, other_class, temperature)]
        values += [1 - sum(ratios) / len(ratios)] if ratios else []
    return reduced(values, embeddings)


def recall_at_k(
    embeddings, labels, *, k=(1, 2, 4, 8, 16), temperature=0.01, rank_temperature=1.0, normalize=True, **references
) -> Tensor:
    """Mean over rows with positives of 1 - the mean over k of min(sum over p of G((k - rank) / t), k) / min(k, |P|)."""
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    values = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        similarity = [dot(anchors[a], x) for x in candidates]
        ranks = soft_ranks(similarity, same_class, other_class, temperature)
        if ranks:
            first = [sum(soft_step((place - rank) / rank_temperature) for rank, _ in ranks) for place in k]
            shares = [count.clamp_max(place) / min(place, len(ranks)) for place, count in zip(k, first, strict=True)]
            values.append(1 - sum(shares) / len(k))
    return reduced(values, embeddings)


def soft_histogram(values: list[Tensor], bins: int, like: Tensor) -> list[Tensor]:
    """Return how many values lie at 0, 1, ... bins: each counts at its two neighbors, by how near it is to them."""
    counts = [like.new_zeros(()) for _ in range(bins + 1)]
    for value in values:
        value = value.clamp(0, bins)
        lower = min(math.floor(value.detach()), bins - 1)
        counts[lower] = counts[lower] + 1 - (value - lower)
        counts[lower + 1] = counts[lower + 1] + value - lower
    return counts


def fast_ap(embeddings, labels, *, bins=10, normalize=True, **references) -> Tensor:
    """Mean over rows with positives of 1 - 1/|P| sum over bins b of h+_b H+_b / H_b, of squared distances 0 to 4."""
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    values = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        places = [squared_distance(anchors[a], x) * bins / 4 for x in candidates]
        positive = soft_histogram([places[p] for p in same_class], bins, embeddings)
        negative = soft_histogram([places[n] for n in other_class], bins, embeddings)
        precision = []
        for b in range(bins + 1):
            before, everyone = sum(positive[: b + 1]), sum(positive[: b + 1]) + sum(negative[: b + 1])
            precision += [positive[b] * before / everyone] if everyone > 0 else []
        values += [1 - sum(precision) / len(same_class)] if same_class else []
    return reduced(values, embeddings)


def histogram(embeddings, labels, *, bins=100, normalize=True, **references) -> Tensor:
    """Sum over bins b of h-_b (h+_0 + ... + h+_b), of the similarities of all pairs, from -1 to 1."""
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    positive, negative = [], []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        places = [(dot(anchors[a], x) + 1) * bins / 2 for x in candidates]
        positive += [places[p] for p in same_class]
        negative += [places[n] for n in other_class]
    pulled, pushed = (soft_histogram(places, bins, embeddings) for places in (positive, negative))
    reverses = [pushed[b] * sum(pulled[: b + 1]) for b in range(bins + 1)]
    return sum(reverses, start=embeddings.sum() * 0) / max(len(positive) * len(negative), 1)


def global_loss(embeddings, labels, *, margin=0.4, weight=0.8, normalize=True, triplets=None, **references) -> Tensor:
    """var+ + var- + weight max(mean+ - mean- + margin, 0), of |a - x|^2 / 4 of all positive, and all negative pairs."""
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    positive, negative = [], []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        if triplets is not None:
            same_class = sorted({p for anchor, p, _ in triplets if anchor == a})
            other_class = sorted({n for anchor, _, n in triplets if anchor == a})
        positive += [squared_distance(anchors[a], candidates[p]) / 4 for p in same_class]
        negative += [squared_distance(anchors[a], candidates[n]) / 4 for n in other_class]
    means = [reduced(values, embeddings) for values in (positive, negative)]
    loss = means[0] * 0
    for values, mean in zip((positive, negative), means, strict=True):
        loss = loss + reduced([(value - mean) ** 2 for value in values], embeddings)
    if positive and negative:
        loss = loss + weight * torch.relu(means[0] - means[1] + margin)
    return loss


def choose_medoids(distances, classes, facility_classes, gamma, candidates) -> tuple[list[int], float]:
    """Grow a set of facilities greedily; return who serves each customer, and the NMI. distances[j][i], rounded.

    Each step tries the next `candidates` in the order of j * 2^64 / golden ratio, modulo 2^64.
    """

    def entropy(n: int) -> float:
        return round(n * math.log(n) * 2**24) / 2**24 if n else 0.0

    def nmi(clusters: list[int]) -> float:
        whole = entropy(len(classes))
        both, alone, named = (
            sum(entropy(part.count(name)) for name in set(part))
            for part in (list(zip(clusters, classes, strict=True)), clusters, classes)
        )
        if (whole - alone) * (whole - named) > 0:
            return (both - alone - named + whole) / math.sqrt((whole - alone) * (whole - named))
        return float(alone == named)

    def serve(chosen: list[int]) -> list[int]:
        return [min(chosen, key=lambda j: (distances[j][i], j)) for i in range(len(classes))]

    def value(chosen: list[int]) -> float:
        served = serve(chosen)
        apart = sum(distances[j][i] for i, j in enumerate(served))
        return -apart / len(classes) + gamma * (1 - nmi(served))

    waiting = sorted(range(len(facility_classes)), key=lambda j: j * 11400714819323198485 % 2**64)
    chosen: list[int] = []
    for _ in set(classes):
        asked = waiting[: candidates or len(waiting)]
        best = max(sorted(asked), key=lambda j: value([*chosen, j]))
        chosen.append(best)
        waiting = waiting[len(asked) :] + [j for j in asked if j != best]
    return serve(chosen), nmi(serve(chosen))


def clustering(embeddings, labels, *, gamma=1.0, candidates=256, normalize=True, **references) -> Tensor:
    """max(F + gamma (1 - NMI) - F~, 0): F of the greedily chosen medoids, F~ of the best medoid of each class.

    F is minus the mean distance of rows to their medoids. Rows whose class no candidate has are left out.
    """
    anchors, others = prepared_pair(embeddings, normalize, **references)
    names = labels.tolist()
    other_names = references["reference_labels"].tolist() if references else names
    squared = squared_distances(embeddings, normalize, **references)
    sides = [embeddings, *(rows for rows in (references.get("references"),) if rows is not None)]
    longest = math.sqrt(max(max(own_squares(side, normalize, sides)) for side in sides))
    unit = 2.0 ** (math.frexp(2 * longest)[1] - 30)
    customers = [i for i, name in enumerate(names) if name in other_names]
    if not customers:
        return embeddings.sum() * 0
    distances = [[round(math.sqrt(squared[i][j]) / unit) * unit for i in customers] for j in range(len(other_names))]
    classes = [names[i] for i in customers]
    served, nmi = choose_medoids(distances, classes, other_names, gamma, candidates)
    right, other = embeddings.sum() * 0, embeddings.sum() * 0
    for place, i in enumerate(customers):
        own = [p for p, name in enumerate(classes) if name == names[i]]
        of_class = [j for j, name in enumerate(other_names) if name == names[i]]
        best = min(of_class, key=lambda j: (sum(distances[j][p] for p in own), j))
        right = right + distance(anchors[i], others[best])
        other = other + distance(anchors[i], others[served[place]])
    return torch.relu((right - other) / len(customers) + gamma * (1 - nmi))


def own_squares(rows, normalize, sides) -> list[float]:
    """Return |row|^2 of each row, on the grid; 1 of a unit row without a direction."""
    fine = not normalize or torch.float64 in {side.dtype for side in sides}
    made = [grid_row(row, normalize=normalize, fine=fine) for row in rows.tolist()]
    return [grid_dot(row, row) or float(normalize) for row in made]


def margin(embeddings, labels, *, margin=0.2, beta=1.2, seed=0, normalize=True, triplets=None, **references) -> Tensor:
    """max(|a - p| - beta + margin, 0) and max(beta - |a - n| + margin, 0), over how many are above 0.

    The triplets are those of distance-weighted sampling, or given ones.
    """
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    if triplets is None:
        triplets = distance_weighted(embeddings.detach(), labels, seed=seed, **references)
    values = []
    for a, p, n in triplets:
        values.append(torch.relu(distance(anchors[a], candidates[p]) - beta + margin))
        values.append(torch.relu(beta - distance(anchors[a], candidates[n]) + margin))
    return reduced(values, embeddings, "mean_nonzero")


# Losses with weights of their own; here labels are class numbers 0, 1, 2...


def cross_entropy(logits: list[Tensor], label: int) -> Tensor:
    return log_sum_exp(logits) - logits[label]


def soft_triple(embeddings, labels, centers, *, scale=20.0, gamma=0.1, tau=0.2, margin=0.01) -> Tensor:
    """Cross-entropy of scale * (S_c - margin [c = label]), S_c = sum_k softmax_k(s_ck / gamma) s_ck, and a regularizer.

    `centers` is (classes, K, dim); s_ck is the cosine of the row and center k of class c. The regularizer,
    tau / (classes K (K-1)) * sum over c and t < s of sqrt(2 + 1e-5 - 2 w_ct.w_cs), draws a class's centers together.
    """
    classes, per_class = centers.shape[:2]
    unit_centers = [prepared(of_class, normalize=True) for of_class in centers]
    values = []
    for row, label in zip(prepared(embeddings, normalize=True), labels.tolist(), strict=True):
        logits = []
        for c in range(classes):
            cosines = torch.stack([dot(row, center) for center in unit_centers[c]])
            similarity = dot(torch.softmax(cosines / gamma, dim=0), cosines)
            logits.append(scale * (similarity - margin if c == label else similarity))
        values.append(cross_entropy(logits, label))
    spread = []
    for of_class in unit_centers:
        for s in range(per_class):
            spread += [torch.sqrt(2 + 1e-5 - 2 * dot(of_class[t], of_class[s])) for t in range(s)]
    return reduced(values, embeddings) + tau * sum(spread) / max(classes * per_class * (per_class - 1), 1)


def arc_face(embeddings, labels, weights, *, scale=64.0, margin=0.5) -> Tensor:
    """Cross-entropy of scale * cosine, where the label's own cosine is taken `margin` radians farther away.

    `weights` is (classes, dim). Past pi - margin, where cos would rise again, cos - margin sin(margin) takes over.
    """
    unit_weights = prepared(weights, normalize=True)
    values = []
    for row, label in zip(prepared(embeddings, normalize=True), labels.tolist(), strict=True):
        cosines = [dot(row, weight) for weight in unit_weights]
        theta = angle(row, unit_weights[label])
        if theta <= math.pi - margin:
            cosines[label] = torch.cos(theta + margin)
        else:
            cosines[label] = torch.cos(theta) - margin * math.sin(margin)
        values.append(cross_entropy([scale * cosine for cosine in cosines], label))
    return reduced(values, embeddings)


def correlation(a: Tensor, x: Tensor) -> Tensor:
    """Return Pearson's correlation of two rows; 0 of a row whose numbers are all equal."""
    a, x = a - a.mean(), x - x.mean()
    lengths = a.norm() * x.norm()
    return dot(a, x) / lengths if lengths > 0 else lengths * 0


def group(embeddings, labels, centers, *, temperature=0.1, iterations=1, anchors=1) -> Tensor:
    """Mean over rows of -log x_i[label] after x_i = x_i p_i / (x_i . p_i), p_i = sum over j of max(corr(i, j), 0) x_j.

    x begins as the softmax of the cosines with the centers of the batch's classes / temperature; the first rows of
    each class are anchors, which are sure of it and have no term.
    """
    unit, unit_centers = prepared(embeddings, normalize=True), prepared(centers, normalize=True)
    names = labels.tolist()
    classes = sorted(set(names))
    is_anchor = [names[:i].count(name) < anchors for i, name in enumerate(names)]
    x = []
    for row, name, sure in zip(unit, names, is_anchor, strict=True):
        logits = torch.stack([dot(row, unit_centers[c]) / temperature for c in classes])
        x.append(logits * 0 + torch.tensor([float(c == name) for c in classes]) if sure else torch.softmax(logits, 0))
    weights = [[torch.relu(correlation(a, b)) for b in embeddings] for a in embeddings]
    for _ in range(iterations):
        moved = []
        for row, shares in zip(weights, x, strict=True):
            support = sum((weight * other for weight, other in zip(row, x, strict=True)), start=shares * 0)
            total = dot(shares, support)
            moved.append(shares * support / total if total > 0 else shares)
        x = moved
    values = [-torch.log(x[i][classes.index(names[i])]) for i in range(len(x)) if not is_anchor[i]]
    return reduced(values, embeddings) + centers.sum() * 0


def cos_face(embeddings, labels, weights, *, scale=64.0, margin=0.35) -> Tensor:
    """Cross-entropy of scale * (cosine - margin [c = label])."""
    unit_weights = prepared(weights, normalize=True)
    values = []
    for row, label in zip(prepared(embeddings, normalize=True), labels.tolist(), strict=True):
        logits = [scale * (dot(row, weight) - margin * (c == label)) for c, weight in enumerate(unit_weights)]
        values.append(cross_entropy(logits, label))
    return reduced(values, embeddings)


def sub_center_arc_face(embeddings, labels, weights, *, centers_per_class=3, scale=64.0, margin=0.5) -> Tensor:
    """ArcFace of the largest cosine with a center of each class; `weights` has the centers of a class side by side."""
    values = []
    of_classes = [prepared(of_class, normalize=True) for of_class in weights.split(centers_per_class)]
    for row, label in zip(prepared(embeddings, normalize=True), labels.tolist(), strict=True):
        nearest = [max(centers, key=lambda center: float(dot(row, center).detach())) for centers in of_classes]
        cosines = [dot(row, center) for center in nearest]
        theta = angle(row, nearest[label])
        if theta <= math.pi - margin:
            cosines[label] = torch.cos(theta + margin)
        else:
            cosines[label] = torch.cos(theta) - margin * math.sin(margin)
        values.append(cross_entropy([scale * cosine for cosine in cosines], label))
    return reduced(values, embeddings)


def proxy_nca(embeddings, labels, proxies, *, temperature=1 / 9, denominator="all") -> Tensor:
    """Mean over rows of -log(exp(-|x - w_y|^2 / t) / sum over classes, or the others, of exp(-|x - w|^2 / t))."""
    unit_proxies = prepared(proxies, normalize=True)
    values = []
    for row, label in zip(prepared(embeddings, normalize=True), labels.tolist(), strict=True):
        logits = [-squared_distance(row, proxy) / temperature for proxy in unit_proxies]
        summed = [logit for c, logit in enumerate(logits) if denominator == "all" or c != label]
        values.append(log_sum_exp(summed) - logits[label])
    return reduced(values, embeddings)


def proxy_anchor(embeddings, labels, proxies, *, margin=0.1, alpha=32.0) -> Tensor:
    """Mean over proxies with rows of log(1 + sum over these of exp(-alpha (s - margin))), and over all proxies of

    log(1 + sum over the other rows of exp(alpha (s + margin))).
    """
    rows, pulls, pushes = prepared(embeddings, normalize=True), [], []
    for c, proxy in enumerate(prepared(proxies, normalize=True)):
        own = [dot(row, proxy) for row, label in zip(rows, labels.tolist(), strict=True) if label == c]
        other = [dot(row, proxy) for row, label in zip(rows, labels.tolist(), strict=True) if label != c]
        if own:
            pulls.append(log_one_plus_sum_exp([-alpha * (s - margin) for s in own], embeddings))
        pushes.append(log_one_plus_sum_exp([alpha * (s + margin) for s in other], embeddings))
    return reduced(pulls, embeddings) + reduced(pushes, embeddings)


# Measures of retrieval


def mean(values) -> float:
    """Return the mean of numbers or truths, NaN if there are none."""
    return math.fsum(values) / len(values) if values else math.nan


def cosines(query, gallery) -> list[list[float]]:
    """Return cos(q, g) for each query q and gallery row g."""
    gallery_rows = float_rows(gallery)
    return [[float_dot(q, g) for g in gallery_rows] for q in float_rows(query)]


def searched(query, query_labels, gallery=None, gallery_labels=None) -> list[list[tuple[float, int]]]:
    """Return for each query the (similarity, label) of every gallery item, in the gallery's order."""
    leave_one_out = gallery is None
    if leave_one_out:
        gallery, gallery_labels = query, query_labels
    found = []
    for q, similarity in enumerate(cosines(query, gallery)):
        items = list(zip(similarity, gallery_labels.tolist(), strict=True))
        found.append(items[:q] + items[q + 1 :] if leave_one_out else items)
    return found


def relevant_ranks(query, query_labels, gallery=None, gallery_labels=None) -> list[list[int]]:
    """Return for each query the ranks of its relevant items, ascending.

    The i-th best has rank i + the number of other-class items at least as similar: on a tie those come first.
    """
    ranks = []
    found = searched(query, query_labels, gallery, gallery_labels)
    for query_label, items in zip(query_labels.tolist(), found, strict=True):
        relevant = sorted((similarity for similarity, label in items if label == query_label), reverse=True)
        others = [similarity for similarity, label in items if label != query_label]
        ranks.append([i + sum(other >= own for other in others) for i, own in enumerate(relevant, start=1)])
    return ranks


def known_ranks(query, known, gallery=None, gallery_known=None) -> list[list[int]]:
    """The same where a relation says what is relevant."""
    ranks = []
    for mine, items in zip(known.rows, known_items(query, known, gallery, gallery_known), strict=True):
        relevant = sorted((s for s, other in items if known.positive(known.grade(mine, other))), reverse=True)
        others = [s for s, other in items if not known.positive(known.grade(mine, other))]
        ranks.append([i + sum(other >= own for other in others) for i, own in enumerate(relevant, start=1)])
    return ranks


def known_items(query, known, gallery=None, gallery_known=None) -> list[list[tuple[float, object]]]:
    """Return for each query the (similarity, what is known) of every gallery item; leave one out without a gallery."""
    others = known if gallery is None else gallery_known
    found = []
    for q, similarity in enumerate(cosines(query, query if gallery is None else gallery)):
        items = list(zip(similarity, others.rows, strict=True))
        found.append(items[:q] + items[q + 1 :] if gallery is None else items)
    return found


def ndcg_at(similarity: list[float], grades: list[float], k: int) -> float:
    """DCG / the best DCG; an item among equals counts with the mean of their grades. NaN if all grades are 0."""
    order = sorted(similarity, reverse=True)[:k]
    dcg = 0.0
    for place, value in enumerate(order, start=1):
        equals = [grade for s, grade in zip(similarity, grades, strict=True) if s == value]
        dcg += math.fsum(equals) / len(equals) / math.log2(place + 1)
    best = sorted(grades, reverse=True)[:k]
    ideal = math.fsum(grade / math.log2(place + 1) for place, grade in enumerate(best, start=1))
    return dcg / ideal if ideal else math.nan


def recall_at(ranks: list[int], k: int) -> float:
    """1 if any of the first k items is relevant, otherwise 0."""
    return float(min(ranks) <= k) if ranks else math.nan


def precision_at(ranks: list[int], k: int) -> float:
    """The relevant share of the first k items; places that a small gallery leaves empty are not relevant."""
    return sum(rank <= k for rank in ranks) / k if ranks else math.nan


def ir_recall_at(ranks: list[int], k: int) -> float:
    """The share of the relevant items that the first k items hold."""
    return sum(rank <= k for rank in ranks) / len(ranks) if ranks else math.nan


def r_precision(ranks: list[int]) -> float:
    """The relevant share of the first R items, where R is how many are relevant."""
    return mean([rank <= len(ranks) for rank in ranks])


def map_at_r(ranks: list[int]) -> float:
    """1/R * the sum of i / rank_i over the relevant items among the first R."""
    return mean([i / rank if rank <= len(ranks) else 0 for i, rank in enumerate(ranks, start=1)])


def reciprocal_rank(ranks: list[int]) -> float:
    return 1 / min(ranks) if ranks else math.nan


# Measures of classification


def knn_predictions(query, query_labels, gallery=None, gallery_labels=None, *, k=5) -> list[int | None]:
    """Return the label with most votes among each query's k nearest items; None if the gallery is empty.

    Nearest by similarity, then by smaller label. Equal votes: the label that comes first in that order wins.
    """
    predictions = []
    for items in searched(query, query_labels, gallery, gallery_labels):
        nearest = sorted(items, key=lambda item: (-item[0], item[1]))[:k]
        votes = [label for _, label in nearest]
        predictions.append(max(votes, key=votes.count, default=None))  # max returns the first of equals
    return predictions


def macro_f1(labels: list[int], predictions: list[int | None]) -> float:
    """Mean over the classes, true or predicted, of F1 = 2 right / (rows of the class + predictions of it)."""
    classes = {*labels, *predictions} - {None}
    scores = []
    for c in classes:
        right = sum(label == prediction == c for label, prediction in zip(labels, predictions, strict=True))
        scores.append(2 * right / (labels.count(c) + predictions.count(c)))
    return mean(scores)


# Measures of clusters


def row_distance(x: list[float], y: list[float], distance: str) -> float:
    """Return |x - y|, |x - y|^2, or 1 - x.y, which rounding shall not make negative."""
    difference = [left - right for left, right in zip(x, y, strict=True)]
    squared = float_dot(difference, difference)
    return {"euclidean": math.sqrt(squared), "squared": squared, "cosine": max(1 - float_dot(x, y), 0.0)}[distance]


def silhouette_values(embeddings, labels, *, distance="euclidean") -> list[float]:
    """(b - a) / max(a, b); a: mean distance to the others of the row's class, b: least mean distance to a class.

    It is 0 for a class of one row and where max(a, b) = 0, and NaN everywhere if there is one class only.
    """
    rows, labels = unit_rows(embeddings), labels.tolist()
    values = []
    for i, row in enumerate(rows):
        by_class = {label: [] for label in labels}
        for j, other in enumerate(rows):
            if j != i:
                by_class[labels[j]].append(row_distance(row, other, distance))
        own_class = by_class.pop(labels[i])
        a = mean(own_class)
        b = min((mean(other_class) for other_class in by_class.values()), default=math.nan)
        if own_class and by_class:
            values.append((b - a) / max(a, b) if max(a, b) > 0 else 0.0)
        else:
            values.append(0.0 if by_class else math.nan)
    return values


def mutual_information_scores(labels, clusters) -> tuple[float, float]:
    """Return (NMI, AMI), with H the mean of the two entropies: I / H and (I - E) / (H - E).

    I is the mutual information, E its mean over all ways to deal the rows to classes and clusters of these sizes.
    Both are 1 if there is nothing to tell apart: one class and one cluster, or each row its own class and cluster.
    """
    labels, clusters = torch.as_tensor(labels).tolist(), torch.as_tensor(clusters).tolist()
    pairs = list(zip(labels, clusters, strict=True))
    if len(set(labels)) == len(set(clusters)) and len(set(labels)) in (1, len(pairs)):
        return 1.0, 1.0
    informations, expectations = [], []
    for label in set(labels):
        for cluster in set(clusters):
            sizes = labels.count(label), clusters.count(cluster), len(pairs)
            informations.append(information(pairs.count((label, cluster)), *sizes))
            expectations.append(expected_information(*sizes))
    mutual, expected = math.fsum(informations), math.fsum(expectations)
    entropies = (entropy(labels) + entropy(clusters)) / 2
    return mutual / entropies, (mutual - expected) / (entropies - expected)


def entropy(labels: list[int]) -> float:
    shares = [labels.count(label) / len(labels) for label in set(labels)]
    return -math.fsum(share * math.log(share) for share in shares)


def information(shared: int, class_size: int, cluster_size: int, rows: int) -> float:
    """What a class and a cluster with so many rows in common add to the mutual information."""
    return shared / rows * math.log(shared * rows / (class_size * cluster_size)) if shared else 0.0


def expected_information(class_size: int, cluster_size: int, rows: int) -> float:
    """The same for a cluster drawn at random: the rows in common are then hypergeometric."""
    terms = []
    for shared in range(min(class_size, cluster_size) + 1):
        ways = math.comb(class_size, shared) * math.comb(rows - class_size, cluster_size - shared)
        terms.append(ways / math.comb(rows, cluster_size) * information(shared, class_size, cluster_size, rows))
    return math.fsum(terms)


# Measures of verification: a pair is genuine if its labels are equal, and accepted if similarity >= threshold


def verification(query, query_labels, gallery=None, gallery_labels=None) -> tuple[list[float], list[float]]:
    """Return the similarities of the genuine and of the impostor pairs; leaving one out, each pair counts once."""
    genuine, impostor = [], []
    found = searched(query, query_labels, gallery, gallery_labels)
    for q, (query_label, items) in enumerate(zip(query_labels.tolist(), found, strict=True)):
        for similarity, label in items[q:] if gallery is None else items:  # without q itself, row q + 1 is item q
            (genuine if label == query_label else impostor).append(similarity)
    return genuine, impostor


def roc_auc(genuine: list[float], impostor: list[float]) -> float:
    """P(genuine > impostor) + P(genuine = impostor) / 2."""
    return mean([(high > low) + (high == low) / 2 for high in genuine for low in impostor])


def accepted(similarities: list[float], threshold: float) -> float:
    return mean([similarity >= threshold for similarity in similarities])


def true_accepts(genuine: list[float], impostor: list[float], false_accept_rate: float) -> float:
    """The largest accepted share of the genuine pairs with at most this share of the impostors; NaN without both."""
    shares = [0.0] if genuine and impostor else [math.nan]  # a threshold above all accepts nothing
    for threshold in genuine:
        if accepted(impostor, threshold) <= false_accept_rate:
            shares.append(accepted(genuine, threshold))
    return max(shares)


def equal_error(genuine: list[float], impostor: list[float]) -> tuple[float, float]:
    """Return ((FAR + FRR) / 2, threshold) at the similarity with the least |FAR - FRR|, the smallest such.

    FAR is the accepted share of the impostors, FRR the refused share of the genuine pairs. NaN without both kinds.
    """
    if not genuine or not impostor:
        return math.nan, math.nan

    def errors(threshold: float) -> tuple[Fraction, Fraction]:
        false_accepts = sum(similarity >= threshold for similarity in impostor)
        false_rejects = sum(similarity < threshold for similarity in genuine)
        return Fraction(false_accepts, len(impostor)), Fraction(false_rejects, len(genuine))

    def imbalance(threshold: float) -> Fraction:
        far, frr = errors(threshold)
        return abs(far - frr)

    threshold = min(genuine + impostor, key=lambda similarity: (imbalance(similarity), similarity))
    return float(sum(errors(threshold)) / 2), threshold


# Measures of training


def collapse(embeddings) -> dict:
    """How the unit rows fill their space.

    variance, mean_variance   of each dimension (population variance), and the mean of these
    effective_rank            exp(entropy of p), p = singular values of the centered rows / their sum
    dead_share                the share of dimensions that deviate less than 1e-3 of the one that deviates most
    mean_cosine               over the pairs of different rows; NaN if there is one row

    Where no variance is above 1e-12 the rows are one point: rank 0, all dimensions dead.
    """
    rows = unit_rows(embeddings)
    centered_columns = [[value - mean(column) for value in column] for column in zip(*rows, strict=True)]
    variance = [mean([value**2 for value in column]) for column in centered_columns]
    deviation = [math.sqrt(value) for value in variance]
    is_point = max(variance) <= COLLAPSED_VARIANCE
    singular = torch.linalg.svdvals(torch.tensor(centered_columns, dtype=torch.float64)).tolist()
    shares = [value / math.fsum(singular) for value in singular if value > 0]
    rank_entropy = -math.fsum(share * math.log(share) for share in shares if share > 0)
    return {
        "variance": variance,
        "mean_variance": mean(variance),
        "effective_rank": 0.0 if is_point else math.exp(rank_entropy),
        "dead_share": mean([is_point or value < DEAD_SHARE * max(deviation) for value in deviation]),
        "mean_cosine": mean([float_dot(x, y) for i, x in enumerate(rows) for y in rows[:i]]),
    }


def convergence_epoch(recalls, tolerance=0.005) -> int:
    """Return the first epoch, numbered from 1, after which the best recall rises by less than the tolerance."""
    if not recalls or any(math.isnan(recall) for recall in recalls):
        raise ValueError(f"recalls are one number for each epoch, not {recalls!r}")
    for epoch in range(1, len(recalls)):
        if max(recalls[epoch:]) - max(recalls[:epoch]) < tolerance:
            return epoch
    return len(recalls)


def nearest_cosines(embeddings, labels) -> tuple[list[float], list[float]]:
    """Return for each row its largest cosine to another row of its class, and to a row of another class."""
    same, other = [], []
    for i, row in enumerate(cosines(embeddings, embeddings)):
        beside = [(value, labels[j] == labels[i]) for j, value in enumerate(row) if j != i]
        same.append(max((value for value, alike in beside if alike), default=-math.inf))
        other.append(max((value for value, alike in beside if not alike), default=-math.inf))
    return same, other
