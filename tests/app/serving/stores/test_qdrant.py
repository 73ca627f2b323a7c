"""Qdrant: folders of local mode, and servers. What all stores share is in test_filling.py.

No server of Qdrant runs here. One that stands in for it takes the client's requests over HTTP and answers from the
client's local mode, so that addresses, keys, JSON and refusals are those of a server; its searching is not.
"""

import contextlib
import gc
import importlib.util
import inspect
import json
import pickle
import socket
import sqlite3
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.local.qdrant_local import QdrantLocal

from shadowmetric.app.serving.indexing.embedding import Embedded
from shadowmetric.app.serving.indexing.listing import Listed
from shadowmetric.app.serving.stores.address import qdrant_place
from shadowmetric.app.serving.stores.qdrant import QdrantGallery, open_qdrant
from shadowmetric.app.serving.stores.store import Known
from shadowmetric.errors import Mistake, Stopped
from shadowmetric.runtime.entries import About, key_of
from shadowmetric.runtime.images import Shape

DIM = 8
KEY = "hunter2"


def about(dim=DIM):
    return About(dim, "one", Shape(8, 8, 3), ("nowhere",), "/r\udce9/\\", {"loss": "shadow"})


def make_images(count=20, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = ["a", "b\udce9", None]
    return [Embedded(Listed(f"{n}\udce9\\.png", labels[n % 3]), bytes([n]) * 32, row) for n, row in enumerate(rows)]


def write(place):
    gallery = QdrantGallery(qdrant_place(place), make=True)
    try:
        gallery.begin(about())
        gallery.put(make_images())
        gallery.finish()
    finally:
        gallery.close()


def queries(count=5):
    return np.stack([image.row for image in make_images(count, seed=1)])


def refusal(place, kind=Mistake):
    with pytest.raises(kind) as said:
        open_qdrant(place).close()
    sentence = str(said.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert KEY not in sentence
    return sentence


class StandIn(BaseHTTPRequestHandler):
    """Answers as a server of Qdrant does."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *said):
        pass

    def handle_request(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "{}")
        path = self.path.partition("?")[0].split("/")[2:]
        world = self.server.world
        world.asked.append((self.command, "/".join(path[1:]), body))
        if world.cut:
            world.cut -= 1
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        if world.answer is not None:
            return self.reply(*world.answer)
        if self.headers.get("api-key") != KEY:
            return self.reply(401, b"Must provide an API key")
        with world.lock:
            result = self.result(world.client, path[0], self.command, "/".join(path[1:]), body)
        said = {"result": result, "status": "ok", "time": 0.0}
        return self.reply(200, json.dumps(said, default=lambda it: it.model_dump(mode="json")).encode())

    do_GET = do_PUT = do_POST = do_PATCH = handle_request

    def result(self, client, name, method, what, body):
        done = {"operation_id": 0, "status": "completed"}
        match method, what:
            case "GET", "exists":
                return {"exists": client.collection_exists(name)}
            case "GET", "":
                return client.get_collection(name)
            case "PUT", "":
                given = models.CreateCollection(**body)
                metadata = given.metadata if self.server.world.metadata else None
                return client.create_collection(name, given.vectors, metadata=metadata)
            case "PATCH", "":
                return client.update_collection(name, metadata=body["metadata"])
            case "PUT", "index":
                return done
            case "PUT", "points":
                client.upsert(name, models.PointsList(**body).points)
                return done
            case "POST", "points":
                asked = models.PointRequest(**body)
                vectors = bool(asked.with_vector)
                return client.retrieve(name, asked.ids, with_payload=asked.with_payload, with_vectors=vectors)
            case "POST", "points/scroll":
                asked = models.ScrollRequest(**body)
                points, after = client.scroll(
                    name,
                    asked.filter,
                    limit=asked.limit,
                    offset=asked.offset,
                    with_payload=asked.with_payload,
                    with_vectors=bool(asked.with_vector),
                )
                return {"points": points, "next_page_offset": after}
            case "POST", "points/count":
                return client.count(name, models.CountRequest(**body).filter)
            case "POST", "facet":
                return client.facet(name, body["key"], limit=body["limit"])
            case "POST", "points/query/batch":
                asked = models.QueryRequestBatch(**body).searches
                return client.query_batch_points(name, [one.model_copy(update={"params": None}) for one in asked])
            case "POST", "points/payload":
                given = models.SetPayload(**body)
                client.set_payload(name, given.payload, given.points)
                return done
            case "POST", "points/delete":
                client.delete(name, models.PointIdsList(**body))
                return done
        raise AssertionError((method, what))

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class World:
    """What the stand-in knows: its rows, what it was asked, and how it is to misbehave."""

    def __init__(self):
        self.client, self.lock, self.asked = QdrantClient(":memory:"), threading.Lock(), []
        self.answer, self.cut, self.metadata = None, 0, True


@pytest.fixture
def world():
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    server.world = World()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.world.place = f"qdrant://{KEY}@127.0.0.1:{server.server_port}/birds"
    yield server.world
    server.shutdown()
    thread.join()
    server.server_close()
    server.world.client.close()


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)


@pytest.fixture(params=["folder", "server"])
def place(request, tmp_path):
    return f"qdrant://{tmp_path}/birds" if request.param == "folder" else request.getfixturevalue("world").place


def test_a_folder_and_a_server_hold_the_same(place):
    write(place)
    gallery = open_qdrant(place)
    assert gallery.about == about()
    assert len(gallery) == 20
    assert gallery.classes() == {"a": 7, "b\udce9": 7}
    keys = [key_of(image.listed.path) for image in make_images()]
    assert sorted(gallery.keys()) == sorted(keys)
    assert gallery.look_up([*keys, "0" * 32]) == {
        key: Known(image.digest, image.listed.label) for key, image in zip(keys, make_images(), strict=True)
    }
    rows = np.stack([image.row for image in make_images()]).astype(np.float16).astype(np.float32)
    for key, image, row in zip(keys, make_images(), rows, strict=True):
        assert gallery.entry(key) == (key, *image.listed)
        np.testing.assert_array_equal(gallery.row(key), row)
    found = gallery.nearest(queries(), 7)
    order = np.argsort(-(queries() @ rows.T), axis=1)[:, :7]
    assert [[hit.entry.key for hit in hits] for hits in found] == [[keys[n] for n in line] for line in order.tolist()]
    assert {hit.entry.label for hits in gallery.nearest(queries(), 7, "b\udce9") for hit in hits} == {"b\udce9"}
    same = gallery.rows_of([make_images()[3].digest, b"\xff" * 32])
    assert list(same) == [make_images()[3].digest]
    np.testing.assert_array_equal(same[make_images()[3].digest], rows[3])
    gallery.relabel({keys[0]: None, keys[1]: "new", keys[2]: "new"})
    gallery.remove(keys[16:])
    assert len(gallery) == 16
    assert gallery.classes() == {"a": 5, "b\udce9": 4, "new": 2}
    assert gallery.entry(keys[0]).label is None
    gallery.close()


def test_keys_come_in_pages(place, monkeypatch):
    write(place)
    monkeypatch.setattr("shadowmetric.app.serving.stores.qdrant.AT_ONCE", 7)
    gallery = open_qdrant(place)
    found = list(gallery.keys())
    assert len(found) == len(set(found)) == 20
    gallery.close()


def strangers():
    """Return points as others might put them beside ours, nearer to everything than ours are."""
    ours = make_images()[0]
    path, digest = "0\udce9\\\\.png".replace("\udce9", "\\udce9"), ours.digest.hex()
    payloads = [
        None,
        {"title": "x"},
        {"path": 3},
        {"path": "a.png", "label": ["a"], "digest": digest},
        {"path": "b.png", "label": "a", "digest": digest},
        {"path": "\\ud800", "label": None, "digest": digest},
        {"path": path, "label": "a", "digest": digest},
    ]
    ids = [7, 2**63, str(uuid.UUID(int=5)), *(str(uuid.UUID(int=2**127 + n)) for n in range(4))]
    return [
        models.PointStruct(id=one, vector=[100.0] * DIM, payload=payload)
        for one, payload in zip(ids, payloads, strict=True)
    ]


def test_points_of_others_are_passed_over_and_stay(place):
    write(place)
    plain = open_qdrant(place)
    wanted, known = plain.nearest(queries(), 20), plain.look_up(list(plain.keys()))
    rows = plain.rows_of([make_images()[0].digest])
    assert len(wanted[0]) == len(known) == 20
    plain.ask(lambda client: client.upsert("birds", strangers()))
    for k in (1, 7, 20):
        assert plain.nearest(np.abs(queries()), k) == [hits[:k] for hits in plain.nearest(np.abs(queries()), 30)]
    assert plain.nearest(queries(), 20) == wanted
    assert plain.nearest(queries(), 30) == wanted
    assert {hit.entry.label for hit in plain.nearest(np.abs(queries(1)), 3, "a")[0]} == {"a"}
    assert set(plain.keys()) == set(known)
    others = [uuid.UUID(str(point.id)).hex for point in strangers() if isinstance(point.id, str)]
    assert plain.look_up([*known, *others]) == known
    assert [plain.entry(key) for key in others] == [plain.row(key) for key in others] == [None] * 5
    np.testing.assert_array_equal(plain.rows_of([make_images()[0].digest])[make_images()[0].digest], *rows.values())
    plain.remove(list(plain.keys()))
    assert len(plain) == len(strangers())
    assert plain.nearest(queries(), 3) == [[]] * 5
    plain.close()


def test_points_of_ours_that_lost_their_digest_are_not_known(place):
    write(place)
    gallery = open_qdrant(place)
    keys, digest = list(gallery.keys()), make_images()[3].digest
    for value in (None, 3, "xy", [digest.hex()]):
        ids = [str(uuid.UUID(key)) for key in keys]
        gallery.ask(lambda client, ids=ids, value=value: client.set_payload("birds", {"digest": value}, ids))
        assert gallery.look_up(keys) == {}
        assert gallery.rows_of([digest]) == {}
    gallery.close()


def test_cosines_are_at_most_1(place):
    write(place)
    gallery = open_qdrant(place)
    row = np.full((1, DIM), 0.3536, np.float32)  # a bit longer than 1
    gallery.put([Embedded(Listed("long.png", None), bytes(32), row[0])])
    assert float((row @ row.T).item()) > 1
    assert gallery.nearest(row, 1)[0][0].similarity == 1.0
    gallery.close()


@pytest.mark.parametrize("depth", [500, 100_000])
def test_metadata_that_is_nested_too_deeply_is_one_sentence(tmp_path, depth):
    nested = "[" * depth + "]" * depth
    said = json.dumps(about().plain()).replace('"one"', nested)
    with contextlib.closing(QdrantClient(path=str(tmp_path))) as client:
        for name, text in (("all", nested), ("some", said)):
            vectors = models.VectorParams(size=DIM, distance=models.Distance.DOT)
            client.create_collection(name, vectors, metadata={"shadowmetric": text})
    for name in ("all", "some"):
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(len(inspect.stack(0)) + 250)
        try:
            sentence = refusal(f"qdrant://{tmp_path}/{name}")
        finally:
            sys.setrecursionlimit(before)
        assert "does not say which model" in sentence or "not by shadowmetric" in sentence


def test_metadata_that_can_be_read_but_not_shown_is_one_sentence(tmp_path, monkeypatch):
    def too_deep(told, where):
        raise RecursionError

    write(f"qdrant://{tmp_path}/birds")
    monkeypatch.setattr("shadowmetric.app.serving.stores.qdrant.about_from", too_deep)
    assert "is there, but not by shadowmetric" in refusal(f"qdrant://{tmp_path}/birds")


def test_a_server_that_nests_too_deeply_is_one_sentence(world):
    world.answer = (200, b'{"result": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    refusal(world.place, Stopped)


def test_a_server_searches_every_row_unless_it_is_asked_for_its_index(world):
    write(world.place)
    for index, exact in (("", {"exact": True}), ("?index=hnsw", None)):
        gallery = open_qdrant(world.place + index)
        gallery.nearest(queries(1), 3)
        gallery.close()
        (asked,) = world.asked[-1][2]["searches"]
        assert (asked.get("params") or {}).get("exact") == (exact or {}).get("exact")


def test_a_server_gets_payload_indexes(world):
    write(world.place)
    made = [body for method, what, body in world.asked if (method, what) == ("PUT", "index")]
    assert {index["field_name"]: index["field_schema"] for index in made} == {"label": "keyword", "digest": "keyword"}


def test_a_server_without_metadata_keeps_it_beside(world, monkeypatch):
    world.metadata = False
    write(world.place)
    assert {one.name for one in world.client.get_collections().collections} == {"birds", "birds--about"}
    gallery = open_qdrant(world.place)
    assert gallery.about == about()
    gallery.close()


def test_a_folder_without_metadata_keeps_it_beside(tmp_path, monkeypatch):
    plain = QdrantLocal.create_collection
    monkeypatch.setattr(
        QdrantLocal, "create_collection", lambda self, *words, metadata=None, **more: plain(self, *words, **more)
    )
    write(f"qdrant://{tmp_path}/birds")
    gallery = open_qdrant(f"qdrant://{tmp_path}/birds")
    assert gallery.about == about()
    gallery.close()


def test_a_connection_that_broke_is_tried_once_more(world):
    write(world.place)
    gallery = open_qdrant(world.place)
    world.cut = 1
    assert len(gallery) == 20
    world.cut = 2
    with pytest.raises(Stopped, match=r"collection 'birds' at qdrant://127.* cannot be reached \(.*\.$"):
        len(gallery)
    assert len(gallery) == 20
    gallery.close()


def test_wrong_keys_are_one_sentence(world):
    write(world.place)
    sentence = refusal(world.place.replace(KEY, "other"))
    assert "is not for this key; write qdrant://KEY@HOST/…, or set QDRANT_API_KEY." in sentence
    assert "is not for this key" in refusal(world.place.replace(f"{KEY}@", ""))


def test_a_key_of_the_environment_is_sent(world, monkeypatch):
    write(world.place)
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    gallery = open_qdrant(world.place.replace(f"{KEY}@", ""))
    assert len(gallery) == 20
    gallery.close()


@pytest.mark.parametrize(
    "answer", [(500, b'{"status":{"error":"oh\\nno"}}'), (503, b""), (200, b"<html>"), (200, b"{}")]
)
def test_servers_that_say_strange_things_are_one_sentence(world, answer):
    world.answer = answer
    refusal(world.place, Stopped)


def test_servers_that_are_not_there_are_one_sentence():
    for host in ("127.0.0.1:1", "nowhere.invalid"):
        assert "cannot be reached" in refusal(f"qdrant://{host}/birds", Stopped)
    assert "cannot be reached" in refusal(f"qdrants://{KEY}@127.0.0.1:1/birds", Stopped)


def test_a_key_that_would_be_sent_in_clear_over_a_network_is_warned_of():
    with pytest.warns(UserWarning, match="insecure connection"):
        QdrantGallery(qdrant_place(f"qdrant://{KEY}@host.invalid/birds")).close()


def test_collections_that_are_not_there_are_refused_and_not_made(tmp_path, world):
    assert "is not there; fill it by" in refusal(f"qdrant://{tmp_path}/store/birds")
    assert not (tmp_path / "store").exists()
    write(f"qdrant://{tmp_path}/store/birds")
    assert "'bees'" in refusal(f"qdrant://{tmp_path}/store/bees")
    assert "is not there; fill it by" in refusal(world.place)


def test_collections_of_others_are_refused(tmp_path):
    with contextlib.closing(QdrantClient(path=str(tmp_path))) as client:
        for name, size in (("full", DIM), ("empty", DIM), ("other", DIM + 1)):
            client.create_collection(name, models.VectorParams(size=size, distance=models.Distance.COSINE))
        client.create_collection("prose", models.VectorParams(size=DIM, distance="Dot"), metadata={"shadowmetric": "x"})
        client.upsert("full", [models.PointStruct(id=1, vector=[1.0] * DIM)])
    assert "is there, but not by shadowmetric; name another collection." in refusal(f"qdrant://{tmp_path}/full")
    assert "does not say which model it is of" in refusal(f"qdrant://{tmp_path}/prose")
    for name in ("other", "empty"):
        with pytest.raises(Mistake, match="is there, but not for rows of 8 compared by dot product; name another"):
            write(f"qdrant://{tmp_path}/{name}")


def test_threads_use_a_folder_one_after_the_other(tmp_path):
    write(f"qdrant://{tmp_path}/birds")
    gallery, inside, most = open_qdrant(f"qdrant://{tmp_path}/birds"), [], []

    def question(client):
        inside.append(client)
        time.sleep(0.005)
        most.append(len(inside))
        inside.pop()

    threads = [threading.Thread(target=gallery.ask, args=(question,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8
    gallery.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the client forgets a file that it could not lock
def test_a_folder_is_for_one_at_a_time(tmp_path):
    write(f"qdrant://{tmp_path}/birds")
    first = open_qdrant(f"qdrant://{tmp_path}/birds")
    assert "already accessed by another instance" in refusal(f"qdrant://{tmp_path}/birds")
    gc.collect()
    first.close()
    open_qdrant(f"qdrant://{tmp_path}/birds").close()


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def damage(folder, point, name="birds"):
    (folder / "collection" / name).mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(folder / "collection" / name / "storage.sqlite") as storage:
        storage.execute("CREATE TABLE IF NOT EXISTS points (id TEXT PRIMARY KEY, point BLOB)")
        storage.execute("INSERT INTO points VALUES ('evil', ?)", (point,))
    storage.close()


def test_a_hostile_folder_runs_nothing(tmp_path):
    write(f"qdrant://{tmp_path}/birds")
    damage(tmp_path, pickle.dumps(Evil(tmp_path / "was here")))
    for name in ("birds", "bees"):  # the client would read all of a folder
        said = refusal(f"qdrant://{tmp_path}/{name}")
        assert said == f"{tmp_path} holds what is no point (it names io.open); do not use this folder."
    with pytest.raises(Mistake, match="holds what is no point"):
        write(f"qdrant://{tmp_path}/birds")
    assert not (tmp_path / "was here").exists()


@pytest.mark.parametrize("name", ["a/b", "birds/c"])
def test_hostile_points_under_nested_names_run_nothing(tmp_path, name):
    write(f"qdrant://{tmp_path}/birds")
    said = json.loads((tmp_path / "meta.json").read_text())
    said["collections"][name] = said["collections"]["birds"]
    (tmp_path / "meta.json").write_text(json.dumps(said))
    damage(tmp_path, pickle.dumps(Evil(tmp_path / "was here")), name)
    assert "holds what is no point (it names io.open)" in refusal(f"qdrant://{tmp_path}/birds")
    assert not (tmp_path / "was here").exists()


def test_a_view_that_shows_hostile_points_now_and_then_runs_nothing(tmp_path):
    write(f"qdrant://{tmp_path}/birds")
    with sqlite3.connect(tmp_path / "collection" / "birds" / "storage.sqlite") as storage:
        storage.execute("ALTER TABLE points RENAME TO plain")
        storage.execute("CREATE TABLE evil (point BLOB)")
        storage.execute("INSERT INTO evil VALUES (?)", (pickle.dumps(Evil(tmp_path / "was here")),))
        storage.execute(
            "CREATE VIEW points AS SELECT rowid AS rowid, id, CASE WHEN abs(random()) % 20 = 0 "
            "THEN (SELECT point FROM evil) ELSE point END AS point FROM plain"
        )
    storage.close()
    for _ in range(20):
        with contextlib.suppress(Mistake):
            open_qdrant(f"qdrant://{tmp_path}/birds").close()
    assert not (tmp_path / "was here").exists()


def test_hostile_points_of_a_collection_that_is_to_be_made_run_nothing(tmp_path):
    damage(tmp_path, pickle.dumps(Evil(tmp_path / "was here")))
    with pytest.raises(Stopped, match=r"cannot be used \(it names io\.open\); try again later\.$"):
        write(f"qdrant://{tmp_path}/birds")
    assert not (tmp_path / "was here").exists()


def test_a_client_that_cannot_be_guarded_opens_no_folders(tmp_path, monkeypatch):
    write(f"qdrant://{tmp_path}/birds")
    monkeypatch.delattr("qdrant_client.local.persistence.pickle")
    assert "cannot be opened safely by this version of qdrant-client;" in refusal(f"qdrant://{tmp_path}/birds")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "qdrant_client.local.persistence", None)
    assert "cannot be opened safely by this version of qdrant-client;" in refusal(f"qdrant://{tmp_path}/birds")


@pytest.mark.parametrize(
    "point",
    [
        b"",
        b"no pickle",
        b"cqdrant_client.http.models.models\nBaseModel.__init__.__globals__\n.",
        b"cqdrant_client.http.models.models\nPointStruct.model_validate\n.",
    ],
)
def test_damaged_points_are_refused(tmp_path, point):
    write(f"qdrant://{tmp_path}/birds")
    damage(tmp_path, point)
    assert "holds what is no point" in refusal(f"qdrant://{tmp_path}/birds")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"collections": 3, "aliases": {}}', "\0"])
def test_damaged_folders_are_refused(tmp_path, text):
    (tmp_path / "meta.json").write_text(text)
    assert "cannot be opened" in refusal(f"qdrant://{tmp_path}/birds")


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Mistake, match="cannot be opened"):
        write(f"qdrant://{tmp_path}/file/birds")


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refusal("qdrant://h/d") == "qdrant_client is not installed; run `pip install 'shadowmetric[qdrant]'`."
