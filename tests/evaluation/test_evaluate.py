"""The front door: protocols, samples, what is refused, what is shown, and memory-mapped arrays."""

import json
import math

import numpy as np
import pytest
import reference
import torch
from batches import batches, plain_batch
from hypothesis import given, settings

import shadowmetric as sm
from shadowmetric.evaluation import MEASURES
from shadowmetric.progress import Bar


def scores(embeddings, labels, **settings):
    return sm.evaluate(embeddings, labels, progress=False, **settings)


@settings(max_examples=15)
@given(batches(most_rows=14))
def test_every_figure_of_any_batch_equals_the_loops(batch):
    embeddings, labels = batch
    found = scores(embeddings, labels)
    ranks = reference.relevant_ranks(embeddings, labels)
    predictions = reference.knn_predictions(embeddings, labels)

    def mean(values):
        there = [value for value in values if not math.isnan(value)]
        return sum(there) / len(there) if there else math.nan

    wanted = {f"recall_at_{k}": mean([reference.recall_at(r, k) for r in ranks]) for k in (1, 2, 4, 8)}
    wanted["precision_at_10"] = mean([reference.precision_at(r, 10) for r in ranks])
    wanted["ir_recall_at_10"] = mean([reference.ir_recall_at(r, 10) for r in ranks])
    wanted["r_precision"] = mean([reference.r_precision(r) for r in ranks])
    wanted["map_at_r"] = mean([reference.map_at_r(r) for r in ranks])
    wanted["reciprocal_rank"] = mean([reference.reciprocal_rank(r) for r in ranks])
    wanted["accuracy"] = mean([float(p == y) for p, y in zip(predictions, labels.tolist(), strict=True)])
    wanted["macro_f1"] = reference.macro_f1(labels.tolist(), predictions)
    figures = found.figures()
    for name, value in wanted.items():
        assert figures[name] == pytest.approx(value, abs=1e-9, nan_ok=True), name
    assert figures.keys() - wanted.keys() == {"silhouette", "nmi", "ami"}
    assert found.setting.lone_queries == sum(not r for r in ranks)
    json.dumps(found.as_dict())


def test_the_front_door_of_the_readme():
    embeddings, labels = plain_batch(60)
    found = scores(embeddings, labels)
    assert found.recall_at.keys() == {1, 2, 4, 8}
    for value in (found.recall_at[1], found.map_at_r, found.r_precision, found.macro_f1, found.accuracy, found.nmi):
        assert 0 <= value <= 1
    assert -1 <= found.silhouette <= 1
    assert found.setting.protocol == "leave-one-out"
    test = scores(embeddings[:20], labels[:20], gallery=embeddings[20:], gallery_labels=labels[20:])
    assert test.setting.protocol == "query-gallery"
    assert test.setting.lone_queries == 20
    assert "20 of them lone" in repr(test)
    assert math.isnan(test.map_at_r)
    assert test.accuracy == 0.0  # no right answer is possible


def test_only_what_is_asked_for_is_measured():
    embeddings, labels = plain_batch(30)
    whole = scores(embeddings, labels)
    for name in MEASURES:
        some = scores(embeddings, labels, measures=[name])
        for figure, value in some.figures().items():
            assert value == pytest.approx(whole.figures()[figure], nan_ok=True)
        assert (some.verification is not None) == (name == "verification")
        assert (some.collapse is not None) == (name == "collapse")
    assert scores(embeddings, labels, measures=[]).figures() == {}
    assert math.isnan(scores(embeddings, labels, measures=["nmi"]).silhouette)


def test_a_sample_measures_its_queries_against_the_whole_set():
    embeddings, labels = plain_batch(80, per_class=4)
    whole, some = scores(embeddings, labels, seed=3), scores(embeddings, labels, queries=25, seed=3)
    assert some.setting.queries == 25
    assert some.setting.of_queries == some.setting.gallery == 80
    assert len(some.query_rows.unique()) == 25
    for name, values in some.per_query.items():
        torch.testing.assert_close(values, whole.per_query[name][some.query_rows])
    assert (some.nmi, some.collapse.effective_rank) == (whole.nmi, whole.collapse.effective_rank)
    pairs = some.verification.genuine_pairs + some.verification.impostor_pairs
    assert pairs == 25 * 79
    assert not torch.equal(some.query_rows, scores(embeddings, labels, queries=25, seed=4).query_rows)
    assert scores(embeddings, labels, queries=999).setting.queries == 80


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_memory_mapped_arrays_are_read_in_place(tmp_path, dtype):
    embeddings, labels = plain_batch(200, per_class=10)
    np.save(tmp_path / "rows.npy", embeddings.numpy().astype(dtype))
    np.save(tmp_path / "labels.npy", labels.numpy().astype("int32"))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    mapped = scores(rows, np.load(tmp_path / "labels.npy"), scratch_bytes=4096)
    loaded = scores(torch.from_numpy(np.array(rows)), labels)
    for name, value in loaded.figures().items():
        assert mapped.figures()[name] == pytest.approx(value, abs=1e-12), name
    as_gallery = scores(embeddings[:10], labels[:10], gallery=rows, gallery_labels=labels, measures=["map_at_r"])
    assert as_gallery.setting.gallery == 200


def test_huge_labels_stay_apart():
    embeddings = torch.eye(4)[[0, 0, 1, 1]] + 0.01
    labels = torch.tensor([2**53, 2**53, 2**53 + 1, 2**53 + 1])  # equal as floats
    assert scores(embeddings, labels).map_at_r == 1.0
    assert scores(embeddings, labels).setting.classes == 2


def test_what_is_refused_and_how():
    embeddings, labels = plain_batch(12)
    broken = embeddings.clone()
    broken[7, 3] = float("nan")
    cases = [
        (lambda: scores(broken, labels), "the first is row 7"),
        (
            lambda: scores(embeddings, labels, gallery=broken, gallery_labels=labels),
            "gallery has NaN .* row 7",
        ),
        (lambda: scores(embeddings, labels[:5]), "12 rows of embeddings"),
        (lambda: scores(embeddings, labels.double()), "integers"),
        (lambda: scores(embeddings, labels, gallery=embeddings), "without gallery_labels"),
        (lambda: scores(embeddings, labels, gallery_labels=labels), "without gallery;"),
        (lambda: scores(embeddings, labels, gallery=embeddings[:, :2], gallery_labels=labels), "must match"),
        (lambda: scores(embeddings, labels, measures=["f1"]), "'f1'; choose one of"),
        (lambda: scores(embeddings, labels, recall_at=[0]), "recall_at is 0"),
        (lambda: scores(embeddings, labels, queries=0), "queries is 0"),
        (lambda: scores(embeddings, labels, neighbors=0), "neighbors is 0"),
        (lambda: scores(embeddings, labels, silhouette_distance="manhattan"), "choose one of euclidean"),
        (lambda: scores(embeddings.tolist(), labels), "embeddings is a list; give a tensor or a numpy array"),
        (lambda: scores(embeddings, labels).interval("nmi"), "'nmi' has no value for each query"),
        (lambda: scores(embeddings[:0], labels[:0]), "empty"),
    ]
    for call, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            call()


def test_intervals_and_paired_tests_come_from_the_queries():
    embeddings, labels = plain_batch(300, per_class=10)
    embeddings = embeddings + torch.randn(30, 8, generator=torch.Generator().manual_seed(1)).double()[labels]
    noisy = embeddings + torch.randn(300, 8, generator=torch.Generator().manual_seed(2)).double()
    good, bad = scores(embeddings, labels), scores(noisy, labels)
    for name in ("recall_at_1", "map_at_r", "accuracy", "macro_f1", "silhouette"):
        interval = good.interval(name, resamples=200)
        assert interval.low < interval.mean < interval.high
        assert interval.mean == pytest.approx(good.figures()[name])
    assert not good.compared_with(bad, "map_at_r").inside_the_noise
    assert good.compared_with(good, "map_at_r").inside_the_noise
    with pytest.raises(ValueError, match="different queries"):
        good.compared_with(scores(embeddings[:50], labels[:50]), "map_at_r")


def test_the_hardest_come_first_with_the_neighbor_that_misled():
    embeddings, labels = plain_batch(40)
    found = scores(embeddings, labels)
    queries, classes = found.hardest_queries(40), found.hardest_classes(99)
    values = found.per_query["map_at_r"]
    assert [q.value for q in queries] == values.sort().values.tolist()
    assert sorted(q.row for q in queries) == list(range(40))
    unit = torch.nn.functional.normalize(embeddings)
    for query in queries[:5]:
        similarity = unit @ unit[query.row]
        similarity[query.row] = -2
        assert query.nearest == int(similarity.argmax())
        assert query.nearest_label == int(labels[query.nearest])
        assert query.similarity == pytest.approx(float(similarity.max()), abs=1e-6)
    assert [c.label for c in classes] == sorted(range(8), key=lambda c: float(values[labels == c].mean()))
    assert scores(embeddings, labels, measures=[]).hardest_queries() == []


def test_progress_names_the_stages_and_never_goes_back():
    embeddings, labels = plain_batch(500, per_class=10)
    told = []
    sm.evaluate(embeddings, labels, scratch_bytes=2**16, progress=lambda stage, share: told.append((stage, share)))
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert list(dict.fromkeys(stage for stage, _ in told)) == [
        "retrieval",
        "silhouette",
        "accuracy",
        "nmi",
        "verification",
        "collapse",
    ]
    assert len(told) > 50
    assert told[-1][1] > 0.9


def test_no_bar_where_nobody_looks(capsys):
    with Bar(patience=-1.0) as bar:
        bar("retrieval", 0.5)
    sm.evaluate(*plain_batch(30))
    assert capsys.readouterr() == ("", "")
