"""Every miner and every loss as plain loops: the truth that the rest of the library is tested against.

How to read it. A miner is a function of (embeddings, labels) that returns row numbers, a list of (anchor, positive,
negative). A loss is a function that returns one number, a 0-d tensor. Both are written straight from the definition,
one pair or one triplet at a time, so that each can be checked by eye. Nothing here is fast: use at most 40 rows.

Conventions, the same everywhere:

    candidates    the rows of the batch except the anchor; with `references`, the reference rows instead, except a
                  row that equals the anchor and has its label: that is the anchor itself
    **references  stands for the arguments references= and reference_labels=, both or neither
    same_class    the candidates with the anchor's label, the possible positives; `other_class` are the rest
    normalize     compare unit rows, row / max(|row|, 1e-12); otherwise the rows as they come
    ties          the smaller row number wins
    zero          a loss with nothing to average is 0 and still has the graph of the embeddings

Miners need no gradient, so they compute with Python floats and exactly rounded sums: equal rows are then equally far,
wherever they stand in memory. Losses compute with 0-d tensors, so that autograd gives the reference gradient.
"""

import math

import torch
from torch import Tensor

SHORTEST_ROW = 1e-12  # a shorter row is divided by this instead of by its length
SMALLEST_SQUARE = 1e-16  # a smaller squared distance has this one's root, and no gradient
COSINE_EDGE = 1e-7  # arccos has an infinite slope at -1 and 1; cosines stay this far inside

Triplet = tuple[int, int, int]


# Who may be compared with whom


def classes_around(embeddings, labels, references=None, reference_labels=None) -> list[tuple[list[int], list[int]]]:
    """Return for each anchor its (same_class, other_class): two lists of candidate row numbers."""
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


# Miners


def float_rows(rows: Tensor, normalize: bool) -> list[list[float]]:
    """Return the rows as Python floats, each of length 1 if `normalize`."""
    lengths = [max(math.sqrt(float_dot(row, row)), SHORTEST_ROW) if normalize else 1 for row in rows.tolist()]
    return [[value / length for value in row] for row, length in zip(rows.tolist(), lengths, strict=True)]


def float_dot(a: list[float], x: list[float]) -> float:
    return math.fsum(left * right for left, right in zip(a, x, strict=True))


def squared_distances(embeddings, normalize, references=None, reference_labels=None) -> list[list[float]]:
    """Return |a - x|^2 for each anchor a and candidate x; on unit rows that is 2 - 2 cos."""
    anchors = float_rows(embeddings, normalize)
    candidates = anchors if references is None else float_rows(references, normalize)
    if normalize:
        return [[2 - 2 * float_dot(a, x) for x in candidates] for a in anchors]
    return [[float_dot(a, a) + float_dot(x, x) - 2 * float_dot(a, x) for x in candidates] for a in anchors]


def closest(distances: list[float], candidates: list[int]) -> int:
    return min(candidates, key=lambda x: (distances[x], x))


def farthest(distances: list[float], candidates: list[int]) -> int:
    return min(candidates, key=lambda x: (-distances[x], x))


def all_triplets(embeddings, labels, *, normalize=True, **references) -> list[Triplet]:
    """Every (a, p, n). `normalize` changes nothing and is here so that all miners are called alike."""
    around = enumerate(classes_around(embeddings, labels, **references))
    return [(a, p, n) for a, (same_class, other_class) in around for p in same_class for n in other_class]


def hard(embeddings, labels, *, normalize=True, **references) -> list[Triplet]:
    """Every positive of an anchor, with the anchor's closest negative."""
    distances = squared_distances(embeddings, normalize, **references)
    triplets = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        for p in same_class:
            if other_class:
                triplets.append((a, p, closest(distances[a], other_class)))
    return triplets


def batch_hard(embeddings, labels, *, normalize=True, **references) -> list[Triplet]:
    """Each anchor's farthest positive, with its closest negative."""
    distances = squared_distances(embeddings, normalize, **references)
    triplets = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        if same_class and other_class:
            triplets.append((a, farthest(distances[a], same_class), closest(distances[a], other_class)))
    return triplets


def in_window(positive: float, negative: float, margin: float, unit: str) -> bool:
    """Is the negative farther than the positive, by less than the margin? Both are squared distances."""
    below_top = {
        "squared": negative < positive + margin,
        "gap": negative < positive + 2 * margin,
        "distance": root(negative) < root(positive) + margin,
    }
    return positive < negative and below_top[unit]


def root(squared_distance: float) -> float:
    return math.sqrt(max(squared_distance, SMALLEST_SQUARE))


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
    distances = squared_distances(embeddings, normalize, **references)
    triplets = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        if positives == "nearest" and same_class:
            same_class = [closest(distances[a], same_class)]
        if positives == "farthest" and same_class:
            same_class = [farthest(distances[a], same_class)]
        for p in same_class:
            window = [n for n in other_class if in_window(distances[a][p], distances[a][n], margin, unit)]
            if window and negatives == "nearest":
                window = [closest(distances[a], window)]
            if not window and other_class and fallback == "farthest":
                window = [farthest(distances[a], other_class)]
            triplets += [(a, p, n) for n in window]
    return triplets


# Arithmetic of the losses: rows are (dim,) tensors, values are 0-d tensors


def prepared(rows: Tensor, normalize: bool) -> list[Tensor]:
    """Return the rows one by one, each of length 1 if `normalize`."""
    return [row / row.norm().clamp_min(SHORTEST_ROW) if normalize else row for row in rows]


def prepared_pair(embeddings, normalize, references=None, reference_labels=None) -> tuple[list[Tensor], list[Tensor]]:
    """Return the anchors and the candidates; without references they are the same rows."""
    anchors = prepared(embeddings, normalize)
    return anchors, anchors if references is None else prepared(references, normalize)


def dot(a: Tensor, x: Tensor) -> Tensor:
    return (a * x).sum()


def squared_distance(a: Tensor, x: Tensor) -> Tensor:
    return ((a - x) ** 2).sum()


def distance(a: Tensor, x: Tensor) -> Tensor:
    return squared_distance(a, x).clamp_min(SMALLEST_SQUARE).sqrt()


def gap(a: Tensor, x: Tensor) -> Tensor:
    """How far the shadow of x on a ends from the tip of a: | |a| - a.x / |a| |."""
    length = a.norm()
    return (length - dot(a, x) / length.clamp_min(SHORTEST_ROW)).abs()


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
    embeddings, labels, *, alpha=2.0, beta=50.0, base=1.0, epsilon=0.1, normalize=True, triplets=None, **references
) -> Tensor:
    """Mean over rows of log(1 + sum_p exp(-alpha (s - base))) / alpha + log(1 + sum_n exp(beta (s - base))) / beta.

    Kept are the positives less similar than the most similar negative + epsilon, and the negatives more similar than
    the least similar positive - epsilon; or, given triplets, each positive and negative that they name, once.
    """
    anchors, candidates = prepared_pair(embeddings, normalize, **references)
    values = []
    for a, (same_class, other_class) in enumerate(classes_around(embeddings, labels, **references)):
        similarity = [dot(anchors[a], x) for x in candidates]
        kept_positives, kept_negatives = [], []
        if triplets is not None:
            kept_positives = sorted({p for anchor, p, _ in triplets if anchor == a})
            kept_negatives = sorted({n for anchor, _, n in triplets if anchor == a})
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


# Losses with weights of their own; here labels are class numbers 0, 1, 2...


def cross_entropy(logits: list[Tensor], label: int) -> Tensor:
    return log_sum_exp(logits) - logits[label]


def soft_triple(embeddings, labels, centers, *, scale=20.0, gamma=0.1, tau=0.2, margin=0.01) -> Tensor:
    """Cross-entropy of scale * (S_c - margin [c = label]), S_c = sum_k softmax_k(s_ck / gamma) s_ck, and a regulariser.

    `centers` is (classes, K, dim); s_ck is the cosine of the row and centre k of class c. The regulariser,
    tau / (classes K (K-1)) * sum over c and t < s of sqrt(2 + 1e-5 - 2 w_ct.w_cs), draws a class's centres together.
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
