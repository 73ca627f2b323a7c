"""Votes of the nearest: a near image outweighs a few farther ones, several as near outvote it."""

import math

import pytest

from shadowmetric.runtime.catalog import CatalogDecision
from shadowmetric.runtime.entries import Entry, Hit
from shadowmetric.runtime.votes import TEMPERATURE, count_votes, verdict


def hits(*pairs):
    return [Hit(Entry(f"{number:032x}", f"{number}.png", label), value) for number, (label, value) in enumerate(pairs)]


def test_a_share_is_the_class_s_part_of_the_weights():
    votes = count_votes(hits(("cup", 0.9), ("jug", 0.8), ("cup", 0.7)))
    weights = [1.0, math.exp(-0.1 / TEMPERATURE), math.exp(-0.2 / TEMPERATURE)]
    assert [vote.label for vote in votes] == ["cup", "jug"]
    assert [vote.images for vote in votes] == [2, 1]
    assert [vote.similarity for vote in votes] == [0.9, 0.8]
    shares = [(weights[0] + weights[2]) / sum(weights), weights[1] / sum(weights)]
    assert [vote.share for vote in votes] == pytest.approx(shares)


def test_one_near_image_outweighs_three_far_ones_but_not_three_near_ones():
    assert count_votes(hits(("cup", 0.9), *[("jug", 0.7)] * 3))[0].label == "cup"
    assert count_votes(hits(("cup", 0.9), *[("jug", 0.88)] * 3))[0].label == "jug"


def test_equal_shares_go_to_the_nearest_and_images_without_a_class_do_not_vote():
    votes = count_votes(hits((None, 0.99), ("jug", 0.9), ("cup", 0.9)))
    assert [(vote.label, vote.share) for vote in votes] == [("jug", 0.5), ("cup", 0.5)]
    assert count_votes(hits((None, 0.9))) == []
    assert count_votes([]) == []


def test_a_similarity_that_is_no_number_does_not_vote():
    assert [vote.label for vote in count_votes(hits(("cup", 0.9), ("jug", math.nan)))] == ["cup"]


def test_words_name_the_class_or_say_that_there_is_none():
    votes = count_votes(hits(("cup", 0.9), ("cup", 0.8), ("jug", 0.5)))
    assert verdict(votes, None) == "cup: 100 % of the vote of the nearest, 2 images"
    decided = CatalogDecision(False, 0.9, 0.95, 0.05, 0.125)
    words = verdict(votes, decided)
    assert words.startswith(
        "not in the catalog: the nearest image has cosine 0.900, below the threshold of 0.950, which"
    )
    assert words.endswith("5.0 % of the images of absent classes reach and 12.5 % of those of present classes miss")
    assert verdict([], None) == ""
