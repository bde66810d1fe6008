from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import falcon
import pytest
from falcon import testing
from falcon.inspect import inspect_routes
from falcon.routing import CompiledRouter
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from actors.ir import json_schema
from api import HttpSettings
from api.errors.catalog import error_catalog
from api.openapi.document import example_of
from api.openapi.operations import Answer, Routes, operation, performs
from storage import Storage
from tests.api.world import World
from tests.clock import ManualClock


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


def test_the_document_is_not_sent_to_who_has_it(world: World):
    first = world.anonymous.simulate_get("/api/v0/openapi.json")
    again = world.anonymous.simulate_get("/api/v0/openapi.json", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_schema_of_pipelines_is_served(world: World):
    first = world.anonymous.simulate_get("/api/v0/pipeline.schema.json")
    assert (first.status_code, first.json) == (200, json_schema())
    again = world.anonymous.simulate_get(
        "/api/v0/pipeline.schema.json", headers={"If-None-Match": first.headers["etag"]}
    )
    assert again.status_code == 304


def test_the_document_is_encoded_once(world: World, monkeypatch: pytest.MonkeyPatch):
    first = world.anonymous.simulate_get("/api/v0/openapi.json")
    monkeypatch.setattr("api.openapi.document.document", None)
    assert world.anonymous.simulate_get("/api/v0/openapi.json").content == first.content


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
    of_pages = {"form_refused", "sign_in_interrupted", "owner_session_required", "host_refuses"}
    elsewhere = {"route_not_found", "method_not_allowed", *of_pages}
    assert listed | elsewhere == set(error_catalog())


def test_a_field_without_an_example_is_reported():
    with pytest.raises(LookupError, match="nameless"):
        example_of({"type": "object", "properties": {"nameless": {"type": "string"}}}, {})


class Silent:
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None: ...


class Changing:
    @operation("put", Answer(204, "Done."))
    def on_put(self, req: falcon.Request, resp: falcon.Response) -> None: ...

    def on_post_list(self, req: falcon.Request, resp: falcon.Response) -> None: ...


class Form:
    @performs("remove")
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None: ...


def test_a_responder_without_an_operation_is_refused():
    with pytest.raises(TypeError, match=r"Silent\.on_get needs @operation"):
        Routes().add("/silent", Silent())
    with pytest.raises(TypeError, match=r"Changing\.on_post_list needs @operation"):
        Routes().add("/changing", Changing(), "list")


def test_a_suffix_that_no_responder_has_is_refused():
    with pytest.raises(TypeError, match="Changing has no responder like on_get_lsit"):
        Routes().add_page("/changing", Changing(), "lsit")


def test_a_page_changes_nothing():
    """Only operations are audited."""
    routes = Routes()
    routes.add("/changing", Changing())
    routes.add_page("/silent", Silent())
    with pytest.raises(TypeError, match=r"Changing\.on_put needs @performs"):
        routes.add_page("/page", Changing())
    routes.add_page("/form", Form())
    with pytest.raises(TypeError, match="/form performs remove, which is no operation"):
        routes.router()
    assert [(endpoint.path, endpoint.method) for endpoint in routes.endpoints] == [("/changing", "put")]


@pytest.fixture
def inspectable(
    monkeypatch: pytest.MonkeyPatch, storage: Storage, clock: ManualClock, settings: HttpSettings
) -> list[falcon.App[Any, Any]]:
    """The app with falcon's own routers, whose routes can be listed; those of later have apps."""
    later: list[Callable[[], CompiledRouter]] = []

    def router(pages: Callable[[], CompiledRouter] | None = None) -> CompiledRouter:
        later.extend([pages] if pages else [])
        return CompiledRouter()

    monkeypatch.setattr("api.openapi.router.Router", router)
    apps = [World.create(storage, clock, settings).app]
    while later:
        apps.append(falcon.App(router=later.pop()()))
    return apps


def test_every_endpoint_but_pages_is_in_the_document(document: dict[str, Any], inspectable: list[falcon.App[Any, Any]]):
    routed = {
        (route.path, method.method.lower())
        for app in inspectable
        for route in inspect_routes(app)
        for method in route.methods
        if not method.internal
    }
    documented = {(path, method) for path, methods in document["paths"].items() for method in methods}
    pages = (
        "/account",
        "/billing/paid",
        "/billing/canceled",
        "/cli-login",
        "/console/",
        "/docs",
        "/integrations/bitbucket",
        "/invites",
        "/login",
        "/search",
        "/sites/of/",
        "/{org}",
    )
    assert {path for path, _ in routed - documented if not path.startswith(pages)} == {"/"}
    assert documented <= routed


_KEYWORDS = {
    *("$ref", "type", "format", "examples", "description", "default", "enum", "const", "discriminator", "readOnly"),
    *("properties", "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties"),
    *("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "anyOf", "oneOf", "allOf", "not"),
    *("minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "deprecated", "writeOnly"),
}
"""The keywords of JSON Schema, and `discriminator` of OpenAPI, that the service's schemas may have."""

_OF_SCHEMAS = {"properties", "$defs"}


def unknown_keywords(schema: Any, where: str) -> list[str]:
    if isinstance(schema, list):
        return [each for at, part in enumerate(schema) for each in unknown_keywords(part, f"{where}/{at}")]
    if not isinstance(schema, dict):
        return []
    found = [f"{where}/{name}" for name in schema.keys() - _KEYWORDS]
    for name in ("items", "additionalProperties", "propertyNames", "not", "anyOf", "oneOf", "allOf", "prefixItems"):
        found += unknown_keywords(schema.get(name), f"{where}/{name}")
    for name, part in schema.get("properties", {}).items():
        found += unknown_keywords(part, f"{where}/properties/{name}")
    return found


def test_schemas_have_only_keywords_of_json_schema(document: dict[str, Any]):
    """A keyword that no client knows, such as `ge` for `minimum`, binds nobody."""
    unknown = [
        each for name, schema in document["components"]["schemas"].items() for each in unknown_keywords(schema, name)
    ]
    for described in operations(document):
        for parameter in described["parameters"]:
            unknown += unknown_keywords(parameter["schema"], f"{described['operationId']}/{parameter['name']}")
        for answer in described["responses"].values():
            for content in answer.get("content", {}).values():
                unknown += unknown_keywords(content.get("schema"), described["operationId"])
    assert unknown == []


@pytest.mark.parametrize(
    ("operation_id", "schema_type", "example"),
    [
        ("disconnectGithubInstallation", "integer", 42),
        ("listGithubInstallationRepos", "integer", 42),
        ("syncGithubInstallation", "integer", 42),
        ("listBitbucketRepos", "string", "acme_team"),
        ("disconnectBitbucket", "string", "acme_team"),
    ],
)
def test_ids_of_installations_and_workspaces_are_no_uuids(
    document: dict[str, Any], operation_id: str, schema_type: str, example: object
):
    (described,) = (each for each in operations(document) if each["operationId"] == operation_id)
    (schema,) = (each["schema"] for each in described["parameters"] if each["name"] == "id")
    assert (schema["type"], schema.get("format")) == (schema_type, None)
    Draft202012Validator(schema).validate(example)


def test_no_operation_reads_a_body_before_the_token(world: World, document: dict[str, Any]):
    """A caller without a token learns nothing of the body."""
    asked = 0
    for path, of_path in document["paths"].items():
        for method, described in of_path.items():
            if described["security"] == [{"bearer": []}] and "requestBody" in described:
                asked += 1
                answered = testing.TestClient(world.app).simulate_request(
                    method.upper(),
                    re.sub(r"{\w+}", "1", path),
                    body=b"{",
                    headers={"Content-Type": "application/json"},
                )
                assert answered.status_code == 401, (method, path)
    assert asked > 20


def test_a_schema_of_uuids_allows_no_other_length(document: dict[str, Any]):
    """Generators of requests would search long for a UUID of the largest length."""

    def bounded(part: Any) -> list[Any]:
        if isinstance(part, list):
            return [each for value in part for each in bounded(value)]
        if not isinstance(part, dict):
            return []
        here = [part] if part.get("format") == "uuid" and part.keys() & {"minLength", "maxLength"} else []
        return here + bounded(list(part.values()))

    assert bounded(document) == []
