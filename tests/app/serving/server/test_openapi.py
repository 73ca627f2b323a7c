"""Everything that the OpenAPI page allows, asked by schemathesis; and what the page says."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from shadowmetric.app.serving.server.settings import ServeSettings
from shadowmetric.runtime.entries import key_of

ADDRESSES = (
    "/api/search",
    "/api/images/{key}",
    "/api/images/{key}/neighbors",
    "/api/index",
    "/health",
    "/metrics",
)
NOTHING_TO_GET_WRONG = ("/health", "/metrics")
# not positive_data_acceptance: OpenAPI cannot say which bytes are an image, or which keys are in the index
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]


def test_every_status_is_documented_with_its_words(asked):
    page = asked.client.get("/openapi.json").json()
    assert set(page["paths"]) == set(ADDRESSES)
    search = page["paths"]["/api/search"]["post"]
    assert set(search["responses"]) == {"200", "403", "404", "408", "413", "422", "503"}
    for status in ("404", "413", "422", "503"):
        schema = search["responses"][status]["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/Problem"}
    assert {parameter["name"] for parameter in search["parameters"]} == {"k", "class"}
    assert "HTTPValidationError" not in page["components"]["schemas"]
    shown = page["paths"]["/api/images/{key}"]["get"]["responses"]
    assert list(shown["200"]["content"]) == ["image/jpeg"]
    assert list(shown["404"]["content"]) == ["application/json"]


@pytest.fixture(scope="module")
def described(small_index, made):
    asked = made.Asked(small_index, ServeSettings(host="0.0.0.0"))  # schemathesis has a name of its own
    with asked.client:
        yield schemathesis.openapi.from_asgi("/openapi.json", asked.app)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
@pytest.mark.parametrize("address", ADDRESSES)
def test_whatever_is_asked_gets_an_answer_that_the_page_describes(described, address, mode):
    (operation,) = (found.ok() for found in described.get_all_operations() if found.ok().path == address)
    if mode is GenerationMode.NEGATIVE and address in NOTHING_TO_GET_WRONG:
        return

    @seed(0)
    @settings(max_examples=40, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case):
        case.call_and_validate(checks=CHECKS)

    ask()


def test_images_and_keys_that_are_there_are_described_too(described, red):
    by_address = {found.ok().path: found.ok() for found in described.get_all_operations()}
    key = key_of("red/0.png")
    cases = [
        by_address["/api/search"].Case(query={"k": 3, "class": "red"}, body=red, media_type="image/png"),
        by_address["/api/images/{key}"].Case(path_parameters={"key": key}, query={"side": 64}),
        by_address["/api/images/{key}/neighbors"].Case(path_parameters={"key": key}),
        by_address["/api/index"].Case(query={"contains": "re"}),
    ]
    for case in cases:
        answer = case.call_and_validate(checks=CHECKS)
        assert answer.status_code == 200
