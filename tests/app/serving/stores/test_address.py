"""Addresses of stores: where they lead, what is refused, and that no secret is ever shown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadowmetric.app.serving.stores.address import (
    beginning,
    from_stored,
    postgres_place,
    qdrant_place,
    to_stored,
    without_secrets,
)
from shadowmetric.errors import Mistake

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)


@pytest.mark.parametrize(
    ("place", "url", "key", "collection"),
    [
        ("qdrant://host/birds", "http://host:6333", None, "birds"),
        ("qdrants://host/birds", "https://host:6333", None, "birds"),
        ("qdrant://host:80/birds", "http://host:80", None, "birds"),
        ("qdrants://a%2Fb%40c@host.example:443/birds%20%C3%A4", "https://host.example:443", "a/b@c", "birds ä"),
        ("qdrant://[::1]:7000/birds", "http://[::1]:7000", None, "birds"),
    ],
)
def test_a_server_of_qdrant(place, url, key, collection):
    found = qdrant_place(place)
    assert (found.url, found.key, found.collection, found.folder) == (url, key, collection, None)


def test_a_key_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", f"{SECRET}\n")
    assert qdrant_place("qdrant://host/birds").key == SECRET
    assert qdrant_place("qdrant://other@host/birds").key == "other"
    assert qdrant_place("qdrant:///folder/birds").key is None
    assert SECRET not in repr(qdrant_place("qdrant://host/birds"))


@pytest.mark.parametrize("key", [f"{SECRET}%0A", f"a%20{SECRET}", f"%C3%A4{SECRET}"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key):
    with pytest.raises(
        Mistake, match=r"the key for collection 'birds' at .* has letters that no key has; .*\.$"
    ) as said:
        qdrant_place(f"qdrant://{key}@host/birds")
    assert SECRET not in str(said.value)


@pytest.mark.parametrize(
    ("place", "folder", "collection"),
    [
        ("qdrant:///data/store/birds", "/data/store", "birds"),
        ("qdrant:///birds", "/", "birds"),
        ("qdrant:///da%20ta/@home/birds", "/da ta/@home", "birds"),
        ("qdrant://./birds", ".", "birds"),
        ("qdrant://./store/birds", "store", "birds"),
        ("qdrant://../store/birds", "../store", "birds"),
    ],
)
def test_a_folder_of_qdrant(place, folder, collection):
    found = qdrant_place(place)
    assert (found.folder, found.collection, found.url, found.key) == (Path(folder), collection, None, None)


@pytest.mark.parametrize(
    ("place", "table", "address"),
    [
        ("postgresql://host/db", "shadowmetric", "postgresql://host/db"),
        ("postgres://u:p@h:1/d?table=birds", "birds", "postgres://u:p@h:1/d"),
        ("postgresql:///d?host=/run/pg&table=b%20c&port=5", "b c", "postgresql:///d?host=/run/pg&port=5"),
        ("postgresql://u:a?b&table=x@h,i:2/d?sslmode=require", "shadowmetric", None),
        ("postgresql://h/d?options=-c%20x%3Dy&index=hnsw", "shadowmetric", "postgresql://h/d?options=-c%20x%3Dy"),
        ("postgresql://", "shadowmetric", "postgresql://"),
    ],
)
def test_what_is_not_ours_goes_to_libpq_unchanged(place, table, address):
    found = postgres_place(place)
    assert (found.table, found.address) == (table, address or place)
    assert found.index == ("hnsw" if "index" in place else None)


@pytest.mark.parametrize(
    "place",
    [
        "qdrant://",
        "qdrant://host",
        "qdrant://host/",
        "qdrant://host:port/birds",
        "qdrant://host:99999/birds",
        "qdrant:///",
        "qdrant://./",
        "qdrant://host/birds/more",
        "qdrant://host/birds?table=x",
        "qdrant://host/birds%ff",
        f"qdrant://host/birds?api_key={SECRET}",
        f"qdrant://host:{SECRET}/birds",
        f"qdrant:/{SECRET}@host/birds",
        f"postgresql:/u:{SECRET}@h/db",
        f"postgresql:u:{SECRET}@h/db",
        f"postgresql://u:{SECRET}",
        f"postgresql://h,u:{SECRET}/db",
        "qdrant://:80/birds",
        f"qdrant://{SECRET}@/birds",
        f"qdrant://a/{SECRET}@host/birds",
        f"qdrant://a/{SECRET}@host",
        f"postgresql://u:a@{SECRET}@host/db",
        f"postgresql://u:a/{SECRET}@host/db",
        f"postgresql://u:{SECRET}@host/db?table=%ff",
        f"postgresql://host/db?password={SECRET}&table=%ff",
    ],
)
def test_addresses_that_cannot_be_read_are_refused(place):
    with pytest.raises(Mistake, match="is no address of a store; write ") as said:
        (qdrant_place if place.startswith("qdrant") else postgres_place)(place)
    scheme = place.partition(":")[0]
    assert str(said.value).startswith((f"{scheme}://… is no", f"{scheme}… is no"))
    assert SECRET not in str(said.value)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (f"mysql://me:{SECRET}@host/db", "mysql…"),
        (f"postgresql:/u:{SECRET}@h/db", "postgresql…"),
        (f"host=h password={SECRET}", "host…"),
        (f"{SECRET}@host/birds", "…"),
        ("one word\nand more", "one…"),
        ("x" * 30, "x" * 20 + "…"),
        ("", "…"),
    ],
)
def test_of_what_is_no_address_only_the_beginning_is_shown(place, shown):
    assert beginning(place) == shown


@pytest.mark.parametrize("name", ["a%2Fb", "a%00", "a:b", "a%5Cb", "..", ".", "a*", "%22"])
def test_names_that_are_no_collections_are_refused(name):
    for place in (f"qdrant://{SECRET}@host/{name}", f"qdrant:///folder/{name}"):
        with pytest.raises(Mistake, match="cannot be the name of a collection") as said:
            qdrant_place(place)
        assert SECRET not in str(said.value)


@pytest.mark.parametrize("name", ["", "a%00b", "x" * 64, "%C3%A4" * 32, "back%5Cslash"])
def test_names_that_are_no_tables_are_refused(name):
    with pytest.raises(Mistake, match="cannot be the name of a table; give 1 to 63 bytes") as said:
        postgres_place(f"postgresql://u:{SECRET}@host/db?table={name}")
    assert SECRET not in str(said.value)


def test_kinds_of_index_that_nobody_knows_are_refused():
    for place in ("qdrant://host/birds?index=ivf", "postgresql://host/db?index=ivf"):
        with pytest.raises(Mistake, match="'ivf' is no kind of index; there is hnsw"):
            (qdrant_place if place.startswith("qdrant") else postgres_place)(place)


def test_what_is_shown_has_no_secret():
    for place in (f"postgresql://me:{SECRET}@host:5/db?table=t&password={SECRET}", f"postgresql://{SECRET}@host:5/db"):
        assert SECRET not in postgres_place(place).shown + repr(postgres_place(place))
        assert "postgresql://host:5/db" in postgres_place(place).shown
    assert SECRET not in repr(qdrant_place(f"qdrant://{SECRET}@host/birds"))
    assert qdrant_place(f"qdrant://{SECRET}@host/birds").shown == "collection 'birds' at qdrant://host:6333"


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (f"postgresql://me:{SECRET}@host:5/db?table=t", "postgresql://…@host:5/db?table=t"),
        (f"postgresql://me:a@/{SECRET}@host/db", "postgresql://…@host/db"),
        (f"mysql://me:{SECRET}@host/db", "mysql://…@host/db"),
        (
            f"postgres://h/d?PassWord={SECRET}&table=t&sslpassword={SECRET}",
            "postgres://h/d?PassWord=…&table=t&sslpassword=…",
        ),
        (f"qdrant://{SECRET}@host/birds", "qdrant://…@host/birds"),
        ("qdrant:///data/@home/birds", "qdrant:///data/@home/birds"),
        ("qdrant://../@home/birds", "qdrant://../@home/birds"),
        ("images@home.index", "images@home.index"),
    ],
)
def test_a_place_can_be_shown_without_its_secrets(place, shown):
    assert without_secrets(place) == shown


@given(st.text(st.characters(codec=None)) | st.text("\\u0dc8\0\udc80x"))
def test_every_text_comes_back_and_is_utf8_without_nul(text):
    stored = to_stored(text)
    assert from_stored(stored) == text
    assert b"\0" not in stored.encode()


@given(st.text("abc/ äöü鳥🐦.-_%'\"{}"))
def test_common_text_is_stored_as_it_is(text):
    assert to_stored(text) == text
