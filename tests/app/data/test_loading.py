"""Batches: the same whoever makes them, in how many ranks ever, and the same again after a run was resumed."""

import pickle
from itertools import islice

import numpy as np
import pytest
import torch
from PIL import Image

from shadowmetric.app.data.augmentation import KINDS, NONE, Augmentation
from shadowmetric.app.data.cache import CachedImages, ResizedImages
from shadowmetric.app.data.dataset import Split
from shadowmetric.app.data.images import ArrayImages, FileImages
from shadowmetric.app.data.loading import Batch, Draws, Images, batches_in_order, choose_workers, training_batches
from shadowmetric.app.data.preprocessing import Preprocessing
from shadowmetric.batches.sampler import PKSampler
from shadowmetric.errors import BrokenImage
from shadowmetric.ops.ranks import share

COUNT = 24
LABELS = np.arange(COUNT, dtype=np.int64) // 4 + 50
SHAPE = Preprocessing(8, 10, 3)
CHANGES = Augmentation("shift", mirror=True)

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # two workers, where there is one core


def pixels():
    generator = torch.Generator().manual_seed(0)
    found = torch.randint(256, (COUNT, 3, 10, 10), generator=generator, dtype=torch.uint8)
    found[:, :, 1:9, 1:9] = torch.arange(COUNT, dtype=torch.uint8)[:, None, None, None]  # the middle tells the number
    return found


@pytest.fixture(params=["array", "cached", "files"])
def split(request, tmp_path):
    images = pixels()
    if request.param == "array":
        return Split(ArrayImages(images), LABELS)
    names = [f"{number}.png" for number in range(COUNT)]
    if request.param == "cached":
        return Split(CachedImages(list(images), names), LABELS)
    for image, name in zip(images, names, strict=True):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / name)
    return Split(ResizedImages(FileImages(tmp_path, names), SHAPE), LABELS)


def sampler(epoch=0, **settings):
    found = PKSampler(LABELS, 8, 4, **({"seed": 3, "batches": 5} | settings))
    found.set_epoch(epoch)
    return found


def drawn(split, draws, workers=0, changes=CHANGES):
    return list(training_batches(split, SHAPE, changes, draws, workers))


def equal(batches, others):
    return len(batches) == len(others) and all(
        batch.numbers == other.numbers
        and batch.whole == other.whole
        and torch.equal(batch.labels, other.labels)
        and torch.equal(batch.images, other.images)
        for batch, other in zip(batches, others, strict=True)
    )


def joined(shares):
    """One batch of the shares of all ranks, in their order; each must know the same whole."""
    images, labels, numbers, whole = zip(*shares, strict=True)
    assert all(found == whole[0] for found in whole)
    return Batch(torch.cat(images), torch.cat(labels), [number for part in numbers for number in part], whole[0])


def test_batches_are_what_the_sampler_draws(split):
    batches = drawn(split, sampler())
    assert [batch.numbers for batch in batches] == list(sampler())
    assert len(batches) == 5
    for images, labels, numbers, whole in batches:
        assert whole == numbers
        assert images.shape == (8, 3, 8, 8)
        assert images.dtype == torch.uint8
        assert labels.dtype == torch.int64
        assert labels.tolist() == LABELS[numbers].tolist()
        assert images[:, 0, 4, 4].tolist() == numbers  # shifted by one at most
    for images, _, numbers, _ in drawn(split, sampler(), changes=NONE):
        assert torch.equal(images, torch.tensor(numbers, dtype=torch.uint8)[:, None, None, None].expand_as(images))


def test_workers_change_nothing(split):
    assert equal(list(training_batches(split, SHAPE, CHANGES, sampler(), 2)), drawn(split, sampler()))
    rank = {"rank": 1, "ranks": 3, "multiple": 2}
    assert equal(drawn(split, sampler(**rank), 2), drawn(split, sampler(**rank)))
    for some in (None, range(3, 20)):
        in_order = [list(batches_in_order(split, SHAPE, 7, workers, some)) for workers in (0, 2)]
        assert equal(*in_order)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("multiple", [1, 3, 4, 16])
def test_the_shares_of_all_ranks_make_the_batch_of_one_process(split, kind, ranks, multiple):
    """Numbers, labels and every changed pixel; and the shares are cut between groups where there are enough."""
    changes = Augmentation(kind, mirror=True)
    each = [
        drawn(split, sampler(epoch=1, rank=rank, ranks=ranks, multiple=multiple), changes=changes)
        for rank in range(ranks)
    ]
    found = list(zip(*each, strict=True))
    assert equal([joined(shares) for shares in found], drawn(split, sampler(epoch=1), changes=changes))
    sizes = {
        (1, 1): [8], (1, 3): [8], (1, 4): [8], (1, 16): [8],
        (2, 1): [4, 4], (2, 3): [6, 2], (2, 4): [4, 4], (2, 16): [4, 4],
        (3, 1): [3, 3, 2], (3, 3): [3, 3, 2], (3, 4): [3, 3, 2], (3, 16): [3, 3, 2],
    }[ranks, multiple]  # fmt: skip
    for shares in found:
        assert [len(images) for images, *_ in shares] == [len(labels) for _, labels, *_ in shares] == sizes


@pytest.mark.parametrize("kind", KINDS)
def test_images_in_files_are_changed_as_those_in_memory(split, kind):
    changes = Augmentation(kind, mirror=True)
    in_memory = Split(ArrayImages(pixels()), LABELS)
    assert equal(drawn(split, sampler(), changes=changes), drawn(in_memory, sampler(), changes=changes))


def test_images_of_different_sizes_are_changed_alike_in_any_number_of_ranks():
    generator = torch.Generator().manual_seed(1)
    wide = [torch.randint(256, (3, 10, 10 + n % 5), generator=generator, dtype=torch.uint8) for n in range(COUNT)]
    split = Split(CachedImages(wide, [str(number) for number in range(COUNT)]), LABELS)
    for kind in KINDS:
        changes = Augmentation(kind, mirror=True)
        each = [drawn(split, sampler(rank=rank, ranks=3), changes=changes) for rank in range(3)]
        found = [joined(shares) for shares in zip(*each, strict=True)]
        assert equal(found, drawn(split, sampler(), changes=changes))


def test_a_rank_reads_its_own_images_only(monkeypatch):
    read, looked_at = CachedImages.read, []
    monkeypatch.setattr(CachedImages, "read", lambda images, number: looked_at.append(number) or read(images, number))
    split = Split(CachedImages(list(pixels()), [str(number) for number in range(COUNT)]), LABELS)
    batches = drawn(split, sampler(rank=1, ranks=3))
    assert looked_at == [number for batch in batches for number in batch.numbers]
    assert len(looked_at) == 5 * 3


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_is_resumed_goes_on_with_the_very_next_batch(workers):
    split = Split(ArrayImages(pixels()), LABELS)
    whole = drawn(split, sampler(epoch=2))
    for done in (0, 1, 4):
        draws = sampler()
        draws.load_state_dict({"epoch": 2, "position": done})
        assert equal(drawn(split, draws, workers), whole[done:])
        ranks = [sampler(rank=rank, ranks=2) for rank in range(2)]
        for draws in ranks:
            draws.load_state_dict({"epoch": 2, "position": done})
        shares = zip(*(drawn(split, draws, workers) for draws in ranks), strict=True)
        assert equal([joined(both) for both in shares], whole[done:])


def test_where_the_sampler_stands_is_what_was_used_only_without_workers():
    """Workers are asked for batches ahead of their use: who resumes counts the batches that were used."""
    split = Split(ArrayImages(pixels()), LABELS)
    for workers, places in ((0, {2}), (2, {5, 0})):
        draws = sampler(epoch=2)
        batches = iter(training_batches(split, SHAPE, CHANGES, draws, workers))
        assert equal(list(islice(batches, 2)), drawn(split, sampler(epoch=2))[:2])
        assert draws.state_dict()["position"] in places
        del batches


def test_begun_again_it_gives_the_rest_of_the_epoch():
    split = Split(ArrayImages(pixels()), LABELS)
    draws = sampler()
    first = list(islice(training_batches(split, SHAPE, CHANGES, draws), 2))
    rest = list(training_batches(split, SHAPE, CHANGES, draws))
    assert equal(first + rest, drawn(split, sampler()))
    draws.set_epoch(1)
    assert equal(list(training_batches(split, SHAPE, CHANGES, draws)), drawn(split, sampler(epoch=1)))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_file_is_named_in_one_sentence(tmp_path, workers):
    (tmp_path / "bad.jpg").write_text("no image")
    split = Split(ResizedImages(FileImages(tmp_path, ["bad.jpg"]), SHAPE), np.zeros(1, np.int64))
    with pytest.raises(BrokenImage) as broken:
        list(batches_in_order(split, SHAPE, 4, workers))
    assert str(broken.value).startswith(f"{tmp_path / 'bad.jpg'} cannot be read as an image")
    assert "\n" not in str(broken.value)


@pytest.mark.parametrize("kind", ["shift", "crop"])
def test_epochs_seeds_and_batches_have_changes_of_their_own(kind):
    """All draw the same few images, so what differs is what was changed in them."""
    labels = np.zeros(2, np.int64)
    split = Split(ArrayImages(pixels()[:2]), labels)

    def seen(epoch=0, **settings):
        draws = PKSampler(labels, 2, 2, **({"seed": 1, "batches": 6} | settings))
        draws.set_epoch(epoch)
        batches = drawn(split, draws, changes=Augmentation(kind, mirror=True))
        return [batch.images[np.argsort(batch.numbers)] for batch in batches]

    def same(some, others):
        return sum(torch.equal(one, other) for one, other in zip(some, others, strict=True))

    first = seen()
    assert same(first, seen()) == 6
    assert same(first, seen(epoch=1)) < 3
    assert same(first, seen(seed=2)) < 3
    assert same(first[:-1], first[1:]) < 3


@pytest.mark.parametrize("kind", ["shift", "crop"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_every_place_of_a_batch_has_changes_of_its_own(kind, ranks):
    """One image in all places, so that whoever changed two places alike would be seen."""
    labels = np.zeros(8, np.int64)
    split = Split(ArrayImages(pixels()[:1].expand(8, -1, -1, -1)), labels)
    each = [PKSampler(labels, 8, 8, seed=1, batches=6, rank=rank, ranks=ranks) for rank in range(ranks)]
    changes = Augmentation(kind, mirror=True)
    for shares in zip(*(drawn(split, draws, changes=changes) for draws in each), strict=True):
        assert len(joined(shares).images.unique(dim=0)) > 4  # of 18 that a shift can make


def test_every_batch_has_its_own_seed_and_all_ranks_have_the_same():
    def seeds(**settings):
        samplers = [sampler(epoch, seed=seed, **settings) for seed in range(3) for epoch in range(3)]
        return [draw.seed for draws in samplers for draw in Draws(draws)]

    found = seeds()
    assert len(found) == len(set(found)) == 3 * 3 * 5
    assert all(0 <= seed < 2**63 for seed in found)
    assert seeds(rank=0, ranks=2) == seeds(rank=1, ranks=2) == seeds(rank=2, ranks=3, multiple=4) == found


def test_a_draw_has_the_whole_batch_and_the_places_of_a_rank():
    for rank, places in enumerate((range(6), range(6, 8))):
        draws = list(Draws(sampler(rank=rank, ranks=2, multiple=3)))
        assert len(draws) == len(Draws(sampler(rank=rank, ranks=2))) == 5
        assert [draw.numbers for draw in draws] == list(sampler())
        assert {draw.share for draw in draws} == {places}


def test_two_epochs_differ(split):
    assert not equal(drawn(split, sampler()), drawn(split, sampler(epoch=1)))


@pytest.mark.parametrize("batch", [1, 7, 8, COUNT, 100])
def test_in_order_every_image_comes_once_and_shows_its_middle(split, batch):
    batches = list(batches_in_order(split, SHAPE, batch))
    assert [len(found.numbers) for found in batches[:-1]] == [batch] * (len(batches) - 1)
    assert [number for found in batches for number in found.numbers] == list(range(COUNT))
    assert torch.equal(torch.cat([found.labels for found in batches]), torch.from_numpy(LABELS))
    assert torch.equal(torch.cat([found.images for found in batches]), pixels()[:, :, 1:9, 1:9])


@pytest.mark.parametrize("some", [range(COUNT), range(5, 17), range(23, 24), range(0), range(9, 9), range(2, 24, 5)])
@pytest.mark.parametrize("batch", [1, 5, 100])
def test_in_order_some_images_come_once(split, some, batch):
    batches = list(batches_in_order(split, SHAPE, batch, some=some))
    assert [found.numbers for found in batches] == [
        list(some)[start : start + batch] for start in range(0, len(some), batch)
    ]
    for images, labels, numbers, whole in batches:
        assert whole == numbers
        assert torch.equal(labels, torch.from_numpy(LABELS[numbers]))
        assert torch.equal(images, pixels()[numbers][:, :, 1:9, 1:9])


@pytest.mark.parametrize("ranks", [1, 2, 3, 30])
def test_in_order_the_shares_of_all_ranks_are_every_image(split, ranks):
    """Where there are more ranks than images, the last have none."""
    some = [share(COUNT, rank, ranks) for rank in range(ranks)]
    found = [batch for part in some for batch in batches_in_order(split, SHAPE, 5, some=part)]
    assert [number for batch in found for number in batch.numbers] == list(range(COUNT))
    assert torch.equal(torch.cat([batch.images for batch in found]), pixels()[:, :, 1:9, 1:9])


def test_the_run_s_own_random_numbers_are_left_alone():
    split = Split(ArrayImages(pixels()), LABELS)
    torch.manual_seed(4)
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    for workers in (0, 2):
        drawn(split, sampler(), workers)
        list(batches_in_order(split, SHAPE, 5, workers))
        drawn(split, sampler(), workers, Augmentation("crop", mirror=True))
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


def test_they_are_drawn_alike_whatever_the_run_s_own_random_numbers_are(split):
    torch.manual_seed(1)
    first = drawn(split, sampler(), changes=Augmentation("crop", mirror=True))
    torch.manual_seed(2)
    assert equal(first, drawn(split, sampler(), changes=Augmentation("crop", mirror=True)))


def test_images_can_be_sent_to_a_worker_that_is_not_a_fork(split):
    images = Images(split, SHAPE, CHANGES)
    draw = next(iter(Draws(sampler(rank=1, ranks=2))))
    sent, draw_sent = pickle.loads(pickle.dumps((images, draw)))
    assert len(images) == COUNT
    assert equal([sent.__getitems__(draw_sent)], [images.__getitems__(draw)])


def test_a_broken_image_is_named_by_a_worker_too(tmp_path):
    split = Split(ResizedImages(FileImages(tmp_path, ["a.png", "b.png"]), SHAPE), np.zeros(2, np.int64))
    for workers in (0, 1):
        with pytest.raises(ValueError, match=r"a\.png is not there\."):
            list(batches_in_order(split, SHAPE, 2, workers))


def test_images_in_memory_need_no_workers(split):
    decoded = isinstance(split.images, ResizedImages)
    wanted = {1: 1, 2: 1, 4: 3, 9: 8, 64: 8} if decoded else dict.fromkeys((1, 2, 4, 9, 64), 0)
    assert {cores: choose_workers(split, cores) for cores in wanted} == wanted
