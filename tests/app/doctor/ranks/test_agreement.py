"""The certificate on two real ranks, all losses in one start of them; wrong losses are found out, and nothing hangs."""

import dataclasses
import json
import time
from functools import cache

import pytest
import torch

from shadowmetric.app.doctor.ranks import agreement as doctor
from shadowmetric.app.doctor.ranks.agreement import Certificate, Check, certificate
from shadowmetric.app.doctor.ranks.steps import batch, embedder_for, shares, take_steps
from shadowmetric.app.doctor.ranks.subject import ROWS, Subject
from shadowmetric.errors import Mistake, Stopped

OURS = (
    Subject("shadow"),
    Subject("shadow", miner="hard", memory=30),
    Subject("soft_triple"),
    Subject("lifted_structure"),
)
RIGHT = ("Spread", "Root", "ManyRows")
WRONG = ("MeanAsTotal", "OfRank", "OwnValue", "OwnWeight", "OwnMemory", "EachTime", "Dead", "NotANumber")


def own(name: str, **more) -> Subject:
    return Subject(f"doctor_losses:{name}", **more)


@cache
def outcome() -> Certificate | Stopped:
    try:
        return certificate((*OURS, *map(own, RIGHT + WRONG)), ranks=2)
    except Stopped as stopped:  # told to every test, and not waited for again
        return stopped


def both() -> Certificate:
    found = outcome()
    if isinstance(found, Stopped):
        raise found
    return found


def checks_of(subject: Subject) -> dict[str, Check]:
    found = {one.form: one for one in both().checks if (one.loss, one.memory) == (subject.name, subject.memory)}
    assert list(found) == ["gathered", "cached", "apart"]
    return found


def notes_of(subject: Subject) -> list[str]:
    return [note.removeprefix(f"{subject.name}: ") for note in both().notes if note.startswith(f"{subject.name}:")]


@pytest.mark.parametrize("subject", [*OURS, *map(own, RIGHT)], ids=str)
def test_two_ranks_give_a_right_loss_the_gradient_of_one_process(subject):
    gathered, cached, apart = checks_of(subject).values()
    for check in (gathered, cached):
        assert check.verdict == "ok"
        assert check.is_ok
        assert check.relative < 1e-11
        assert check.absolute < 1e-11
        assert check.value_difference < 1e-11
        assert check.value == gathered.value != 0
    assert gathered.collectives == cached.collectives  # micro-batches send nothing
    assert apart.is_ok  # it is not judged


@pytest.mark.parametrize("subject", [*OURS, own("Spread"), own("Root")], ids=str)
def test_the_control_shows_that_rows_must_be_gathered(subject):
    apart = checks_of(subject)["apart"]
    assert apart.verdict == "control"
    assert apart.relative > 1e-2
    assert apart.value_difference > 1e-2


def test_collectives_of_a_step_are_counted_with_those_of_the_weights():
    sent = 5  # how many rows each has, rows, labels, the sums, the gradient of rows
    assert [check.collectives for check in checks_of(Subject("shadow")).values()] == [sent + 1, sent + 1, 1]
    assert [check.collectives for check in checks_of(Subject("soft_triple")).values()] == [sent + 2, sent + 2, 2]


def test_memories_are_equal_on_all_ranks_only_if_rows_are_gathered():
    assert [check.same_state for check in checks_of(OURS[1]).values()] == [True, True, False]
    assert [check.same_state for check in checks_of(OURS[0]).values()] == [None, None, None]


@pytest.mark.parametrize(
    ("name", "least", "most"), [("MeanAsTotal", 0.1, 9), ("OfRank", 1e-7, 1e-6), ("OwnWeight", 0.4, 0.6)]
)
def test_a_wrong_gradient_is_found_by_its_size(name, least, most):
    for form in ("gathered", "cached"):
        check = checks_of(own(name))[form]
        assert least < check.relative < most
        assert check.verdict == "different"
        assert not check.is_ok


def test_a_wrong_value_is_found_though_the_gradient_is_right():
    check = checks_of(own("OwnValue"))["gathered"]
    assert check.relative < 1e-12
    assert check.value_difference > 1
    assert check.verdict == "different"


def test_a_wrong_memory_is_found_though_the_gradient_is_right():
    check = checks_of(own("OwnMemory"))["gathered"]
    assert check.relative < 1e-12
    assert check.same_state is False
    assert check.verdict == "different"


def test_a_loss_that_cannot_be_compared_is_not_called_right():
    assert checks_of(own("Dead"))["gathered"].verdict == "no gradient"
    assert checks_of(own("NotANumber"))["gathered"].verdict == "different"
    assert checks_of(own("EachTime"))["gathered"].verdict == "different"
    assert not any(checks_of(own(name))["cached"].is_ok for name in ("Dead", "NotANumber", "EachTime"))


def test_notes_say_what_a_reader_would_ask():
    unshared = "it has no `sums` over anchors, so every rank computes the loss of all rows"
    assert notes_of(OURS[0]) == notes_of(OURS[2]) == notes_of(OURS[3]) == []
    assert notes_of(own("Spread"))[0].startswith(unshared)
    assert notes_of(own("Root"))[0].startswith("no two rows of its batch are equal, since there rounding alone")
    assert notes_of(own("ManyRows"))[1].startswith("the control could not be computed")
    assert checks_of(own("ManyRows"))["apart"].verdict == "failed"
    assert notes_of(own("EachTime"))[0].startswith("one process does not repeat its own gradient")
    assert notes_of(own("Dead"))[0].startswith("one process has no gradient either, so nothing was compared")
    assert notes_of(own("NotANumber"))[0].startswith("one process has NaN or infinity")


def test_a_certificate_is_ok_if_all_its_checks_are():
    assert not both().is_ok
    right = tuple(check for check in both().checks if check.is_ok)
    assert dataclasses.replace(both(), checks=right).is_ok
    found = json.loads(json.dumps(both().as_dict()))
    assert (found["ranks"], found["rows"], found["shares"], found["ok"]) == (2, ROWS, [30, 11], False)
    assert found["checks"][0]["verdict"] == "ok"


def test_a_rank_that_waits_in_vain_is_said_and_nothing_hangs():
    began = time.monotonic()
    with pytest.raises(
        Stopped, match=r"^rank 0 failed: doctor_losses:hangs, gathered: waited 2 s for another in vain$"
    ):
        certificate([own("hangs")], ranks=2, seconds=2.0)
    assert time.monotonic() - began < 100


def test_a_loss_begins_the_same_whatever_was_drawn_before():
    torch.manual_seed(1)
    first = Subject("soft_triple").build().state_dict()
    torch.manual_seed(2)
    for name, value in Subject("soft_triple").build().state_dict().items():
        assert torch.equal(value, first[name])


@pytest.mark.parametrize("ranks", range(1, 9))
def test_shares_are_uneven_and_nobody_is_left_out(ranks):
    found = shares(ranks)
    assert sum(found) == ROWS
    assert len(found) == ranks
    assert min(found) >= 2
    assert ranks == 1 or len(set(found)) > 1


def test_the_batch_has_equal_rows_that_stay_equal_whatever_is_embedded_together():
    images, labels = batch(0, equal_rows=True)
    assert sorted(labels.bincount().tolist()) == [1, 3, 6, 7, 10, 14]  # ragged
    embedder = embedder_for(Subject("shadow"))
    rows = embedder(images)
    assert torch.equal(rows, torch.cat([embedder(part) for part in images.split(1)]))
    for one, other, is_same_class in ((5, 4, True), (11, 2, False), (38, 2, False)):
        assert torch.equal(rows[one], rows[other])
        assert bool(labels[one] == labels[other]) is is_same_class
    distinct = embedder(batch(0, equal_rows=False)[0])
    assert len(distinct.unique(dim=0)) == ROWS > len(rows.unique(dim=0))


def test_moved_weights_move_the_gradient_by_a_rounding_and_no_more():
    subject = Subject("shadow")
    before, after = (take_steps(subject, "whole", equal_rows=True, moved=moved, seed=1) for moved in (0.0, 1e-15))
    assert before is not None
    assert after is not None
    assert 0 < doctor.apart(after.gradient, before.gradient)[1] < 1e-13
    assert doctor.apart(before.gradient, before.gradient) == (0.0, 0.0)


def test_differences_are_the_largest_of_any_step_as_a_share_of_that_step():
    wanted = torch.tensor([[1.0, -2.0], [100.0, 0.0]])
    assert doctor.apart(wanted + torch.tensor([[0.5, 0.0], [0.0, 1.0]]), wanted) == (1.0, 0.25)
    assert doctor.apart(torch.ones(1, 1), torch.zeros(1, 1)) == (1.0, float("inf"))


def test_the_random_numbers_of_the_caller_are_left_alone():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    doctor.reference(Subject("soft_triple"))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (Subject("shade"), "--loss is 'shade'; choose from shadow, triplet"),
        (Subject("shadow", miner="soft"), "--miner is 'soft'; choose one of hard, semi_hard"),
        (Subject("shadow", margin=-1.0), "margin is -1"),
        (
            Subject("nowhere.losses:make"),
            "--loss nowhere.losses:make: 'nowhere.losses' could not be imported (ModuleNot",
        ),
        (own("missing"), "--loss doctor_losses:missing: doctor_losses has no 'missing'; name"),
        (Subject("doctor_losses:"), "--loss doctor_losses:: doctor_losses has no ''; name"),
        (own("number"), "number() gave a int; it must give an nn.Module"),
        (own("needs_more"), "needs_more() failed (TypeError: needs_more() missing 1 required positional argument"),
        (own("Rows"), f"gave a tensor of shape ({ROWS},); it must give a tensor of one number"),
        (own("Detached"), "gave a number without a gradient"),
        (own("Wide"), "failed with RuntimeError: The size of tensor a (8) must match the size of tensor b (64)"),
        (own("Spread", memory=30), "Spread can't be compared with remembered rows"),
    ],
    ids=str,
)
def test_a_mistake_is_one_sentence_before_any_process_starts(subject, words, monkeypatch):
    monkeypatch.setattr(doctor, "run_ranks", None)
    with pytest.raises(Mistake) as found:
        certificate([subject])
    assert words in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("ranks", [0, 9])
def test_so_many_ranks_are_refused(ranks):
    with pytest.raises(Mistake, match=f"--ranks is {ranks}; it must be from 1 to 8"):
        certificate([Subject("shadow")], ranks)


def test_a_torch_without_gloo_is_said(monkeypatch):
    monkeypatch.setattr(doctor.dist, "is_gloo_available", lambda: False)
    with pytest.raises(Mistake, match="this torch has no gloo"):
        certificate([Subject("shadow")])
