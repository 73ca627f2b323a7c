"""What every request passes: hosts, origins, headers, counts."""

import asyncio
import json

import pytest

from shadowmetric.app.serving.server.guard import Guard
from shadowmetric.app.serving.server.settings import ServeSettings
from shadowmetric.errors import Mistake
from shadowmetric.runtime.entries import key_of

ADDRESSES = [
    "/",
    "/page.js",
    "/style.css",
    "/icon.svg",
    "/api/index",
    "/health",
    "/metrics",
    "/openapi.json",
    "/nowhere",
]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "[::1]:9", "[::1]"])
def test_a_loopback_server_answers_to_its_own_names(asked, host):
    assert asked.client.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:8000", "127.0.0.1.nip.io", "", "[::2]", "a:b"]
)
def test_a_foreign_name_that_leads_here_is_refused(asked, host, red):
    for address in ADDRESSES:
        assert asked.client.get(address, headers={"Host": host}).status_code == 403
    assert asked.client.post("/api/search", content=red, headers={"Host": host}).status_code == 403


def test_a_server_for_others_answers_to_any_name(small_index, made):
    asked = made.Asked(small_index, ServeSettings(host="0.0.0.0"))
    assert asked.client.get("/health", headers={"Host": "birds.example"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost:8000"}, 200),
        ({"Origin": "http://LOCALHOST:8000"}, 200),
        ({"Origin": "http://localhost:8001"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "file://localhost:8000"}, 403),
        ({"Origin": "http://localhost:99999999"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://localhost:8000", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "https://localhost", "Host": "localhost"}, 200),
    ],
)
def test_a_post_of_a_foreign_page_is_refused(asked, red, headers, status):
    answer = asked.client.post("/api/search", content=red, headers=headers)
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers
    if status == 403:
        assert "another origin" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "pics.example.com", "Origin": "https://pics.example.com"}, 200),
        ({"Host": "PICS.example.com:443", "Origin": "https://pics.example.com"}, 200),
        ({"Host": "127.0.0.1:8000", "Origin": "https://pics.example.com"}, 200),
        ({"Host": "127.0.0.1:8000", "Origin": "http://other.example:8080"}, 200),
        ({"Host": "pics.example.com"}, 200),
        ({"Host": "127.0.0.1:8000", "Origin": "http://other.example"}, 403),
        ({"Host": "127.0.0.1:8000", "Origin": "https://pics.example.com.evil.example"}, 403),
        ({"Host": "pics.example.com", "Origin": "https://evil.example"}, 403),
        ({"Host": "evil.example", "Origin": "https://pics.example.com"}, 403),
        ({"Host": "pics.example.com", "Origin": "https://pics.example.com", "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_a_proxy_in_front_is_let_through_by_the_names_that_were_given(small_index, made, red, headers, status):
    asked = made.Asked(small_index, ServeSettings(names=("pics.example.com", "other.example:8080")))
    assert asked.client.post("/api/search", content=red, headers=headers).status_code == status
    without = made.Asked(small_index).client.post("/api/search", content=red, headers=headers)
    assert without.status_code == 403


@pytest.mark.parametrize("name", ["https://pics.example.com", "pics.example.com/", "", "a b", "*", "x:y"])
def test_a_name_that_is_none_is_one_sentence(name):
    with pytest.raises(Mistake, match=r"--name is .*; give the name alone, such as pics"):
        ServeSettings(names=(name,))


def test_every_answer_has_the_headers_of_security(asked):
    for address in [*ADDRESSES, f"/api/images/{key_of('red/0.png')}", "/api/images/x"]:
        answer = asked.client.get(address)
        policy = answer.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Cache-Control" in answer.headers


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere(asked):
    page = asked.client.get("/").text
    assert "<style" not in page
    assert " style=" not in page
    assert " on" + "click" not in page
    assert "<script>" not in page
    for address in ("/", "/page.js", "/style.css"):
        text = asked.client.get(address).text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text
        assert "//cdn" not in text
    assert asked.client.get("/docs").status_code == 404
    assert asked.client.get("/redoc").status_code == 404


def test_files_of_the_page_are_asked_for_again_only_when_they_change(asked):
    first = asked.client.get("/page.js")
    assert first.headers["Content-Type"].startswith("text/javascript")
    assert first.headers["Cache-Control"] == "no-cache"
    again = asked.client.get("/page.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("address", ["/../settings.py", "/page/page.html", "/%2e%2e/app.py", "/..%2fapp.py"])
def test_no_other_file_is_served(asked, address):
    assert asked.client.get(address).status_code == 404


def test_methods_that_are_not_there_are_405_in_one_sentence(asked):
    answer = asked.client.delete("/api/index")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET")
    assert answer.json() == {"detail": "This address does not take that method."}
    assert asked.client.get("/nowhere").json() == {"detail": "There is nothing at this address."}


def test_requests_are_counted_by_route_and_status_and_stages_are_timed(asked, red):
    asked.search(red)
    asked.search(b"words")
    asked.client.get(f"/api/images/{key_of('red/0.png')}")
    asked.client.get("/one")
    asked.client.get("/two")
    asked.client.request("BREW", "/health")
    text = asked.client.get("/metrics").text
    for line in (
        'shadowmetric_requests_total{method="POST",route="/api/search",status="200"} 1.0',
        'shadowmetric_requests_total{method="POST",route="/api/search",status="422"} 1.0',
        'shadowmetric_requests_total{method="GET",route="/api/images/{key}",status="200"} 1.0',
        'shadowmetric_requests_total{method="GET",route="none",status="404"} 2.0',
        'shadowmetric_requests_total{method="other",route="/health",status="405"} 1.0',
        'shadowmetric_refused_total{status="422"} 1.0',
        'shadowmetric_refused_total{status="503"} 0.0',
        'shadowmetric_stage_seconds_count{stage="decode"} 1.0',
        'shadowmetric_stage_seconds_count{stage="embed"} 1.0',
        "shadowmetric_index_rows 18.0",
        "shadowmetric_requests_in_flight 1.0",
    ):
        assert line in text.splitlines(), line
    assert "process_resident_memory_bytes" in text


def test_two_applications_count_apart(asked, small_index, made):
    other = made.Asked(small_index)
    asked.client.get("/health")
    assert 'route="/health"' not in other.client.get("/metrics").text


def test_health_can_be_asked_for_without_a_body(asked):
    answer = asked.client.head("/health")
    assert (answer.status_code, answer.content) == (200, b"")
    asked.service.stopping = True
    assert asked.client.head("/health").status_code == 503
    assert "head" not in asked.client.get("/openapi.json").json()["paths"]["/health"]


def test_health_is_503_while_the_server_stops(asked):
    assert asked.client.get("/health").json() == {"status": "ok"}
    asked.service.stopping = True
    answer = asked.client.get("/health")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


@pytest.mark.parametrize("begun", [False, True])
def test_a_request_that_is_cancelled_is_told_that_the_server_stops(asked, begun):
    sent = []

    async def cancelled(scope, receive, send):
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise asyncio.CancelledError

    async def keep(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    asyncio.run(Guard(cancelled, asked.service)(scope, None, keep))
    assert [message["status"] for message in sent if "status" in message] == [200 if begun else 503]
    if not begun:
        assert (b"retry-after", b"1") in sent[0]["headers"]
        assert json.loads(sent[1]["body"]) == {"detail": "The server is stopping; try again in a second."}


def test_no_answer_tells_where_anything_is(asked, images, red, small_index):
    root, _ = images
    answers = [asked.client.get(address) for address in ADDRESSES if address != "/nowhere"]
    answers += [asked.search(red), asked.search(b"words"), asked.client.get("/api/images/x")]
    answers.append(asked.client.get(f"/api/images/{key_of('red/0.png')}/neighbors"))
    for answer in answers:
        for secret in (str(root), str(root.parent), str(small_index), "/srv/models", "/home/somebody", "f" * 64):
            assert secret not in answer.text
            assert secret not in str(answer.headers)


def test_classes_are_suggested_by_words_some_at_a_time(asked, made):
    about = asked.client.get("/api/index").json()
    assert about["images"] == 3 * made.EACH
    assert about["classes"] == [{"name": name, "images": made.EACH} for name in ("blue", "green", "red")]
    assert about["trained"]["data"] == "folder:birds"
    assert about["limits"] == {"bytes": 16_000_000, "pixels": 40_000_000, "neighbors": 200}
    some = asked.client.get("/api/index", params={"contains": "RE"}).json()
    assert [one["name"] for one in some["classes"]] == ["red", "green"]
    assert (some["classes_matching"], some["classes_in_all"]) == (2, 3)
    one = asked.client.get("/api/index", params={"limit": 1, "past": 1}).json()
    assert [found["name"] for found in one["classes"]] == ["green"]
    assert asked.client.get("/api/index", params={"limit": 1001}).status_code == 422
