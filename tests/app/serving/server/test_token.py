"""The token: who may ask, how it is sent, where it comes from; and requests that say twice where they end."""

import base64
import contextlib
import hmac
import json
import re
import socket
from urllib.parse import urlsplit

import pytest

from shadowmetric.app.serving.server.settings import ServeSettings
from shadowmetric.app.serving.server.token import VARIABLE, is_allowed, read_token
from shadowmetric.errors import Mistake
from shadowmetric.runtime.entries import key_of

TOKEN = "a-token-of:20-letters"


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture(scope="module")
def closed(made, small_index):
    found = made.Asked(small_index, ServeSettings(token=TOKEN))
    with found.client:
        yield found


@pytest.mark.parametrize("sent", [f"Bearer {TOKEN}", f"bearer  {TOKEN} ", basic("me", TOKEN), basic("", TOKEN)])
def test_who_has_the_token_may_ask(closed, red, sent):
    headers = {"Authorization": sent}
    assert closed.client.get("/", headers=headers).status_code == 200
    assert closed.client.get("/api/index", headers=headers).status_code == 200
    assert closed.client.post("/api/search", content=red, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        None,
        "",
        TOKEN,
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        f"Digest {TOKEN}",
        basic(TOKEN, ""),
        basic("me", ""),
        "Basic ====",
        "Basic \xe9",
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
    ],
)
def test_without_it_nothing_is_answered_but_health(closed, red, sent):
    headers = {} if sent is None else {"Authorization": sent.encode("latin-1")}
    for path in ("/", "/page.js", "/api/index", "/metrics", "/openapi.json", f"/api/images/{key_of('red/0.png')}"):
        answer = closed.client.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"].startswith("Basic realm=")
        assert answer.headers["Connection"] == "close"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "token" in answer.json()["detail"]
    assert closed.client.post("/api/search", content=red, headers=headers).status_code == 401
    assert closed.client.get("/health", headers=headers).status_code == 200


def test_a_token_does_not_let_foreign_pages_and_names_in(closed, red):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert closed.client.get("/", headers=headers | {"Host": "evil.example"}).status_code == 403
    foreign = headers | {"Origin": "http://evil.example"}
    assert closed.client.post("/api/search", content=red, headers=foreign).status_code == 403


def test_tokens_are_compared_in_constant_time_and_shown_nowhere(monkeypatch):
    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or False)
    for sent in ("", "Bearer x", f"Bearer {TOKEN}", "Bearer " + "x" * 10_000):
        is_allowed(sent, TOKEN)
    assert compared == [(32, 32)] * 4
    assert TOKEN not in repr(ServeSettings(token=TOKEN))


@pytest.mark.parametrize("text", [TOKEN, TOKEN + "\n", TOKEN + "\r\n"])
def test_a_token_is_read_from_a_file_or_the_environment(tmp_path, text):
    (tmp_path / "token").write_bytes(text.encode())
    assert read_token(tmp_path / "token", False, {VARIABLE: "another-one-of-many"}) == TOKEN
    assert read_token(None, False, {VARIABLE: TOKEN}) == TOKEN
    assert read_token(None, False, {}) == read_token(None, True, {}) == read_token(None, False, {VARIABLE: ""}) == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", r"the token of --token-file .*token has 0 characters; it needs 16 to 1024, so make one by `openssl"),
        (b"secret\n", "has 6 characters"),
        (b"x" * 5000, "has 4096 characters"),
        (b"two lines of\nmany letters", "has spaces, lines or letters beyond ASCII"),
        ("é".encode() * 20, "has spaces, lines or letters beyond ASCII"),
        (b"\xff" * 20, "is no text"),
        (None, r"--token-file .*token cannot be read \(No such file or directory\); name a file with a token"),
    ],
)
def test_a_token_that_is_none_is_one_sentence_without_it(tmp_path, content, words):
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(Mistake, match=words) as raised:
        read_token(tmp_path / "token", False, {})
    assert not content or content.decode(errors="replace").strip() not in str(raised.value)
    with pytest.raises(Mistake, match="no-token is given beside --token-file"):
        read_token(tmp_path / "token", True, {})


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({}, False),
        ({"host": "0.0.0.0"}, True),
        ({"host": "0.0.0.0", "token": TOKEN}, False),
        ({"host": "0.0.0.0", "no_token": True}, False),
        ({"host": "x", "bound": "::"}, True),
        ({"host": "x", "bound": "127.0.0.1"}, False),
    ],
)
def test_an_address_for_others_needs_a_token(settings, refused):
    with pytest.raises(Mistake, match="--token-file") if refused else contextlib.nullcontext():
        ServeSettings(**settings).require_token()


@pytest.mark.parametrize(
    "head",
    [
        "POST /api/search HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
        "POST /api/search HTTP/1.1\r\nTransfer-Encoding: Chunked\r\nContent-Length: 5",
        "GET /health HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked",
        "POST /api/search HTTP/1.0\r\nTransfer-Encoding: chunked",
        "POST /api/search HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6",
        "POST /api/search HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "POST /api/search HTTP/1.1\r\nTransfer-Encoding: chunked, identity",
    ],
)
def test_a_request_that_says_twice_where_it_ends_is_the_last_of_its_connection(made, small_index, head):
    behind = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with made.listening(made.Asked(small_index).app) as address:
        place = urlsplit(address)
        with socket.create_connection((place.hostname, place.port), timeout=120) as opened:
            opened.sendall(f"{head}\r\nHost: localhost\r\n\r\n0\r\n\r\n{behind}".encode())
            said = b""
            with contextlib.suppress(ConnectionError):
                said = b"".join(iter(lambda: opened.recv(65536), b""))
    head_of_answer, _, body = said.partition(b"\r\n\r\n")
    assert head_of_answer.startswith(b"HTTP/1.1 400")
    assert b"connection: close" in head_of_answer.lower()
    assert len(re.findall(rb"HTTP/1.1 \d", said)) == 1
    assert list(json.loads(body)) == ["detail"]
