from __future__ import annotations

from typing import Any

import falcon
import pytest
from falcon import testing
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from api.catalog import CATALOG
from api.examples import example_of
from api.operations import Answer, Routes, operation, operation_of
from tests.api.world import World


@pytest.fixture
def document(world: World) -> dict[str, Any]:
    answered = testing.TestClient(world.app).simulate_get("/api/v0/openapi.json")
    assert answered.status_code == 200
    found: dict[str, Any] = answered.json
    return found


def operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for path in document["paths"].values() for operation in path.values()]


def test_the_document_is_valid_openapi(document: dict[str, Any]):
    assert document["openapi"] == "3.1.0"
    validate(document)


def test_every_operation_has_an_id_of_its_own_and_a_summary(document: dict[str, Any]):
    ids = [each["operationId"] for each in operations(document)]
    assert len(ids) == len(set(ids))
    assert all(each["summary"] for each in operations(document))


def test_every_example_fits_its_schema(document: dict[str, Any]):
    for each in operations(document):
        contents = [answer.get("content", {}) for answer in each["responses"].values()]
        for content in (each.get("requestBody", {}).get("content", {}), *contents):
            body = content.get("application/json", {})
            examples = [shown["value"] for shown in body.get("examples", {}).values()]
            for example in [*examples, *([body["example"]] if "example" in body else [])]:
                Draft202012Validator({**body["schema"], "components": document["components"]}).validate(example)


def test_every_error_that_a_request_may_meet_is_exemplified(document: dict[str, Any]):
    listed = {
        code
        for each in operations(document)
        for answer in each["responses"].values()
        for code in answer.get("content", {}).get("application/json", {}).get("examples", {})
    }
    elsewhere = {"route_not_found", "method_not_allowed"}
    assert listed | elsewhere == set(CATALOG)


def test_a_field_without_an_example_is_told():
    with pytest.raises(LookupError, match="nameless"):
        example_of({"type": "object", "properties": {"nameless": {"type": "string"}}}, {})


def test_a_responder_that_says_nothing_is_seen():
    class Silent:
        def on_get(self, req: falcon.Request, resp: falcon.Response) -> None: ...

        @operation("put", Answer(204, "Done."))
        def on_put(self, req: falcon.Request, resp: falcon.Response) -> None: ...

    routes = Routes()
    routes.add("/silent", Silent())
    assert [method for _, method, responder in routes.responders() if operation_of(responder) is None] == ["get"]


def test_every_responder_says_what_it_takes_and_answers(world: World, document: dict[str, Any]):
    answered = testing.TestClient(world.app)
    for path in ("/api/v0/ping", "/healthz", "/api/v0/openapi.json"):
        assert path in document["paths"]
        assert answered.simulate_get(path).status_code == 200
