"""Records made up for tests: figures by loss, one a seed."""

from paper.record import Record

KINDS = {"triplet_control": "control", "double_shadow": "control", "untrained": "floor", "raw_pixels": "floor"}


def made_record(data="cifar10", bed=None, settings=None, **losses):
    """Return a record; losses: name -> {figure: values}."""
    runs = []
    for name, figures in losses.items():
        for seed in range(max(map(len, figures.values()))):
            found = {figure: values[seed] for figure, values in figures.items() if seed < len(values)}
            runs.append({"name": name, "kind": KINDS.get(name, "loss"), "seed": seed, "figures": found, "journal": []})
    facts = {"bed": bed or data, "data": data, "scale": "small", "command": "python -m paper made-up"}
    facts |= {"reduced": "Reduced: all.", "origin": {"commit": "abc", "machine": "a machine"}, "notes": []}
    return Record(facts | {"settings": settings or {"backbone": "small_cnn"}, "differences": {}}, runs, {})


def like_the_paper(gain=0.05, noise=0.001):
    """Return figures of two losses, of which the first is better by so much."""
    middle = [0.5, 0.5 + noise, 0.5 - noise]
    figures = ("recall_at_1", "accuracy", "macro_f1", "silhouette", "mean_variance", "anchor_gradient")
    mine = {figure: [value + gain for value in middle] for figure in figures} | {"convergence_epoch": [2.0, 2.0, 2.0]}
    theirs = {figure: middle for figure in figures} | {"convergence_epoch": [4.0, 4.0, 4.0]}
    return {"shadow": mine, "triplet": theirs, "triplet_control": theirs}
