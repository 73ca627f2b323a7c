"""PostgreSQL: names, passwords, indexes, connections that break. What all stores share is in test_filling.py."""

import contextlib
import importlib.util
import inspect
import json
import secrets
import sys
import threading
import time
from urllib.parse import quote

import numpy as np
import psycopg
import pytest
from psycopg import sql

from shadowmetric.app.serving.galleries.gallery import open_gallery
from shadowmetric.app.serving.indexing.embedding import Embedded
from shadowmetric.app.serving.indexing.listing import Listed
from shadowmetric.app.serving.stores.address import postgres_place
from shadowmetric.app.serving.stores.postgres import PostgresGallery, open_postgres
from shadowmetric.app.serving.stores.postgres_connections import MOST_CONNECTIONS
from shadowmetric.errors import Mistake, Stopped
from shadowmetric.runtime.entries import About, key_of
from shadowmetric.runtime.images import Shape

pytest_plugins = ["postgres_server"]
DIM = 8


def about(dim=DIM):
    return About(dim, "one", Shape(8, 8, 3), ("nowhere",), "/root", {})


def make_images(count=50, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return [Embedded(Listed(f"{n}.png", "ab"[n % 2]), bytes([n]) * 32, row) for n, row in enumerate(rows)]


def write(place, dim=DIM):
    gallery = PostgresGallery(postgres_place(place))
    try:
        gallery.begin(about(dim))
        gallery.put(make_images())
        gallery.finish()
    except BaseException:
        gallery.close()
        raise
    return gallery


@pytest.fixture
def filled(postgres_table):
    write(postgres_table).close()
    return postgres_table


@pytest.fixture
def connection(postgres_address):
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        yield connection


def queries(count=5):
    return np.stack([image.row for image in make_images(count, seed=1)])


def refusal(place, kind=Mistake):
    with pytest.raises(kind) as said:
        open_postgres(place)
    sentence = str(said.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


HOSTILE = [
    'x"; DROP TABLE victims; --',
    "x'y",
    "per%cent %s %(k)s",
    "{table} {0}",
    "Capital Ümlaut 鳥",
    "select",
    "a.b",
    "  ",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_names(name, postgres_address, connection):
    schema = f"test_{secrets.token_hex(8)}"  # nothing of this leaves it
    connection.execute(f"CREATE EXTENSION IF NOT EXISTS vector; CREATE SCHEMA {schema}")
    connection.execute(f"CREATE TABLE {schema}.victims (x int)")
    try:
        options = quote(f"-csearch_path={schema},public", safe="")
        joint = "&" if "?" in postgres_address else "?"
        place = f"{postgres_address}{joint}options={options}&table={quote(name, safe='')}&index=hnsw"
        write(place).close()
        gallery = open_gallery(place)
        assert len(gallery) == len(set(PostgresGallery.keys(gallery))) == 50
        assert gallery.nearest(queries(), 3, "a")
        gallery.remove([key_of("1.png")])
        gallery.relabel({key_of("2.png"): None})
        assert gallery.classes() == {"a": 24, "b": 24}
        gallery.close()
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
        assert {table for (table,) in tables} == {name, "victims"}
    finally:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


def test_rows_are_halves_where_pgvector_has_them(filled, connection):
    table = postgres_place(filled).table
    question = (
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = 'row'"
    )
    assert connection.execute(question, (table,)).fetchone() == (f"halfvec({DIM})",)


@pytest.fixture(params=["halfvec", "vector"])
def kind(request, monkeypatch):
    """Return the type of the column; vector as if pgvector were older than 0.7."""
    plain = PostgresGallery.ask

    def ask(self, question, *values, **parts):
        return [(None,)] if "'halfvec'" in question else plain(self, question, *values, **parts)

    if request.param == "vector":
        monkeypatch.setattr(PostgresGallery, "ask", ask)
    return request.param


def test_an_index_is_made_once_and_used_when_it_is_asked_for(kind, postgres_table, connection):
    asked = f"{postgres_table}&index=hnsw"
    for _ in range(2):
        gallery = write(asked)
        assert gallery.kind == kind
        gallery.close()
    table = postgres_place(asked).table
    made = connection.execute("SELECT indexdef FROM pg_indexes WHERE tablename = %s", (table,)).fetchall()
    assert sum("USING hnsw" in text and f"{kind}_ip_ops" in text for (text,) in made) == 1
    for place, uses in ((asked, 1), (postgres_table, 0)):
        gallery = open_postgres(f"{place}&options={quote('-cenable_seqscan=off', safe='')}")
        before = scans(connection, table)
        hits = gallery.nearest(queries(), 5)
        gallery.nearest(queries(), 5, "a")
        assert {len(found) for found in gallery.nearest(queries(), 1001)} == {50}
        gallery.close()
        assert [len(found) for found in hits] == [5] * 5
        assert scans(connection, table) - before == 5 * uses
        assert all(found == sorted(found, key=lambda hit: -hit.similarity) for found in hits)


@pytest.mark.parametrize("index", ["", "&index=hnsw"])
def test_each_row_finds_itself(kind, index, postgres_table):
    gallery = write(postgres_table + index)
    best = gallery.nearest(np.stack([image.row for image in make_images()]), 1)
    assert [hits[0].entry.path for hits in best] == [image.listed.path for image in make_images()]
    gallery.close()


def test_equally_similar_images_are_cut_off_by_path(postgres_table):
    gallery = write(postgres_table)
    row = queries(1)[0]
    gallery.put([Embedded(Listed(path, None), bytes(32), row) for path in ("b", "a", "Z", "ä", "B")])
    found = [[hit.entry.path for hit in gallery.nearest(row[None], k)[0]] for k in (1, 3, 5)]
    assert found == [["B"], ["B", "Z", "a"], ["B", "Z", "a", "b", "ä"]]
    gallery.close()


def scans(connection, table):
    """Return how often the HNSW index of a table was asked; connections tell it when they end."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND pid <> pg_backend_pid()"
    while connection.execute(others, (f"%{table}%",)).fetchone() != (0,):
        time.sleep(0.01)
    question = """SELECT sum(idx_scan)::int FROM pg_stat_user_indexes JOIN pg_indexes ON indexname = indexrelname
                  WHERE relname = %s AND indexdef LIKE '%%USING hnsw%%'"""
    return connection.execute(question, (table,)).fetchone()[0]


def test_more_threads_than_connections_wait(filled):
    gallery = open_postgres(filled)
    most, inside, lock = [0], [0], threading.Lock()

    def work(connection):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        connection.execute("SELECT pg_sleep(0.02)")
        with lock:
            inside[0] -= 1

    threads = [threading.Thread(target=gallery.connections.run, args=(work,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 < most[0] <= MOST_CONNECTIONS
    assert len(gallery.connections.idle) <= MOST_CONNECTIONS
    gallery.close()
    assert not gallery.connections.idle


def test_connections_that_were_cut_are_replaced(filled, connection):
    gallery = open_postgres(filled)
    wanted = gallery.nearest(queries(), 3)
    for _ in range(2):
        for idle in gallery.connections.idle:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", (idle.info.backend_pid,))
        assert gallery.nearest(queries(), 3) == wanted
    gallery.close()


def test_a_restarted_server_is_asked_again(postgres_server):
    place = f"{postgres_server.address()}?table=restarted"
    gallery = write(place)
    wanted = gallery.nearest(queries(), 3)
    postgres_server.stop()
    try:
        with pytest.raises(Stopped, match=r"table 'restarted' at .* cannot be reached \(.*\); look at "):
            gallery.nearest(queries(), 3)
    finally:
        postgres_server.start()
    assert gallery.nearest(queries(), 3) == wanted
    gallery.close()


def test_a_refused_question_is_one_sentence_and_the_connection_goes_on(filled):
    gallery = open_postgres(filled)
    with pytest.raises(Stopped, match=r"refused: .* does not exist .*\.$"):
        gallery.ask("SELECT nothing FROM {table}")
    with pytest.raises(ZeroDivisionError):
        gallery.connections.run(lambda connection: 1 / 0)
    assert len(gallery) == 50
    gallery.close()


def test_wrong_passwords_users_and_databases_are_one_sentence(postgres_server):
    sentence = refusal(postgres_server.address(password="hunter2"))
    assert "password authentication failed" in sentence
    assert "hunter2" not in sentence
    assert "hunter2" not in refusal(postgres_server.address(user="nobody else", password="hunter2"))
    assert 'database "nowhere" does not exist' in refusal(postgres_server.address(database="nowhere"))


def test_servers_that_are_not_there_are_one_sentence(tmp_path):
    for host in ("127.0.0.1:1", "nowhere.invalid", f"{quote(str(tmp_path), safe='')}"):
        sentence = refusal(f"postgresql://me:hunter2@{host}/db?connect_timeout=2")
        assert "cannot be reached" in sentence
        assert "hunter2" not in sentence


@pytest.mark.parametrize(
    "place", ["u:50%hunter2@h/d", "u:hunter2@h:port/d", "u:hunter2@h/d?nonsense=1", "u:hunter2@h/d?x"]
)
def test_addresses_that_libpq_cannot_read_are_one_sentence(place):
    assert "hunter2" not in refusal(f"postgresql://{place}")


def test_tables_that_are_not_there_or_not_ours_are_refused(postgres_table, connection):
    assert "is not there; fill it by `shadowmetric index RUN FOLDER --to" in refusal(postgres_table)
    name = sql.Identifier(postgres_place(postgres_table).table)
    connection.execute(sql.SQL("CREATE TABLE {} (x int)").format(name))
    assert "is there, but not by shadowmetric; name another by ?table=NAME." in refusal(postgres_table)
    for comment in ("prose", "[]", "{}", '"shadowmetric"', '{"shadowmetric": 3}', '{"shadowmetric": {"dim": "x"}}'):
        connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(name, sql.Literal(comment)))
        refusal(postgres_table)


@pytest.mark.parametrize("depth", [500, 100_000])
def test_a_comment_that_is_nested_too_deeply_is_one_sentence(depth, postgres_table, connection):
    name = sql.Identifier(postgres_place(postgres_table).table)
    connection.execute(sql.SQL("CREATE TABLE {} (x int)").format(name))
    nested = "[" * depth + "]" * depth
    comment = json.dumps({"shadowmetric": about().plain()}).replace('"one"', nested)
    for text in (nested, comment):
        connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(name, sql.Literal(text)))
        with few_frames():
            assert "is there, but not by shadowmetric" in refusal(postgres_table)


@contextlib.contextmanager
def few_frames():
    """Let Python give up where it has gone some hundred calls further than here."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 250)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def test_cosines_are_at_most_1(postgres_table):
    gallery = write(postgres_table)
    row = np.full((1, DIM), 0.3536, np.float32)  # a bit longer than 1
    gallery.put([Embedded(Listed("long.png", None), bytes(32), row[0])])
    assert float((row @ row.T).item()) > 1
    assert gallery.nearest(row, 1)[0][0].similarity == 1.0
    gallery.close()


def test_a_user_who_may_not_add_the_extension_is_told(postgres_server):
    with psycopg.connect(postgres_server.address(), autocommit=True) as connection:
        connection.execute("CREATE ROLE guest LOGIN PASSWORD 'hunter2'")
        connection.execute("CREATE DATABASE bare")
    place = postgres_server.address("guest", "hunter2", "bare")
    gallery = PostgresGallery(postgres_place(place))
    with pytest.raises(
        Mistake, match=r"has no extension vector.* let its administrator run `CREATE EXTENSION vector`\.$"
    ):
        gallery.begin(about())
    gallery.close()


def test_too_many_dimensions_are_one_sentence(postgres_table):
    with pytest.raises(Stopped, match=r"dimensions .*\.$"):
        write(postgres_table, 100_000)


def test_a_table_that_was_half_made_is_not_there(postgres_table, monkeypatch):
    plain = PostgresGallery.answer

    def cut(self, connection, question, values, parts):
        if question.startswith("COMMENT"):
            raise KeyboardInterrupt
        return plain(self, connection, question, values, parts)

    monkeypatch.setattr(PostgresGallery, "answer", cut)
    with pytest.raises(KeyboardInterrupt):
        write(postgres_table)
    monkeypatch.undo()
    assert "is not there" in refusal(postgres_table)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refusal("postgresql://h/d") == "psycopg is not installed; run `pip install 'shadowmetric[postgres]'`."
