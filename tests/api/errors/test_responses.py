from __future__ import annotations

import logging
import re
from uuid import UUID

import pytest

from api import RequestIdFilter, error_catalog
from api.middleware.access_log import enter_request
from storage import DatabaseBusy
from tests.api.world import HELLO, Account, PipelinePath, World

USER = "/api/v0/user"
PATTERN = re.compile(r"[A-Za-z0-9._-]{20,200}")


@pytest.mark.parametrize("code", error_catalog())
def test_every_problem_is_explained(code: str):
    problem = error_catalog()[code]

    assert problem.code == code
    assert re.fullmatch("[a-z][a-z_]*", code)
    assert problem.type
    assert problem.meaning.endswith(".")
    assert problem.remedy.endswith(".")


def test_a_failure_is_an_envelope(world: World):
    answered = world.anonymous.simulate_get(USER)

    assert answered.headers["Content-Type"] == "application/json"
    assert answered.json == {
        "error": {
            "type": "unauthorized",
            "code": "unauthorized",
            "message": "send `Authorization: Bearer <token>`",
            "request_id": answered.headers["X-Request-Id"],
            "doc_url": "https://ci.example.org/docs/errors/unauthorized",
        }
    }


@pytest.mark.parametrize("path", ["/api", "/api/v0", "/api/v0/", "/api/v0/user//", "/api/v1/user", "/%ff", "/a%00b"])
def test_an_unknown_path_is_route_not_found(world: World, path: str):
    answered = world.anonymous.simulate_get(path)

    assert answered.status_code == 404
    assert answered.json["error"]["code"] == "route_not_found"


def test_a_wrong_method_gets_the_allowed_ones(world: World):
    answered = world.anonymous.simulate_put(USER)

    assert answered.status_code == 405
    assert answered.json["error"]["code"] == "method_not_allowed"
    assert {"GET", "HEAD", "PATCH", "DELETE", "OPTIONS"} == set(answered.headers["Allow"].split(", "))
    for method in ("POST", "PUT", "TRACE"):
        assert world.anonymous.simulate_request(method, USER).status_code == 405, method


@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")
@pytest.mark.parametrize("method", ["BREW", "WEBSOCKET"])
def test_a_method_that_http_does_not_know_is_a_wrong_one_too(world: World, method: str):
    answered = world.anonymous.simulate_request(method, USER)

    assert answered.status_code == 405
    assert answered.json["error"]["code"] == "method_not_allowed"
    assert answered.json["error"]["message"].startswith(f"{method} is not allowed here")
    assert {"GET", "HEAD", "PATCH", "DELETE", "OPTIONS"} == set(answered.headers["Allow"].split(", "))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"name": "x"} y',
        b"\xff",
        b'{"name": "\xff"}',
        b'{"name": NaN}',
        b'{"name": "\\ud800"}',
        b"[" * 100000,
        b'{"name": 1' + b"0" * 5000 + b"}",
        b"\xef\xbb\xbf{}",
        b'{"a": 1,}',
    ],
)
def test_a_body_of_invalid_json_is_malformed(ada: Account, body: bytes):
    answered = ada.client.simulate_post("/api/v0/organizations", body=body, content_type="application/json")

    assert answered.status_code == 400
    assert answered.json["error"]["code"] == "malformed_json"
    assert answered.json["error"]["type"] == "invalid_request"
    assert "line 1 column" in answered.json["error"]["message"]


@pytest.mark.parametrize("value", ["[]", "{}", "0"])
def test_a_body_of_millions_of_values_is_not_parsed(ada: Account, value: str):
    body = '{"x": [' + ",".join([value] * 2_000_001) + "]}"
    answered = ada.client.simulate_post("/api/v0/organizations", body=body, content_type="application/json")

    assert (answered.status_code, answered.json["error"]["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", "application/jsonp", ";"],
)
def test_another_content_type_is_not_supported(ada: Account, content_type: str):
    answered = ada.client.simulate_post("/api/v0/organizations", body='{"name": "x"}', content_type=content_type)

    assert answered.status_code == 415
    assert answered.json["error"]["code"] == "unsupported_media_type"


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=UTF-8", None])
def test_json_is_taken_by_any_of_its_names(ada: Account, content_type: str | None):
    headers = {} if content_type is None else {"Content-Type": content_type}
    answered = ada.client.simulate_post("/api/v0/organizations", body='{"name": "x"}', headers=headers)

    assert answered.status_code == 201


@pytest.mark.parametrize("given", ["a" * 20, "z" * 200, "Az09._-Az09._-Az09._-"])
def test_a_good_request_id_is_kept(world: World, given: str):
    answered = world.anonymous.simulate_get(USER, headers={"X-Request-Id": given})

    assert answered.headers["X-Request-Id"] == given
    assert answered.json["error"]["request_id"] == given


@pytest.mark.parametrize("given", [None, "", "a" * 19, "a" * 201, "a b" * 10, "ä" * 20, "a/" * 10, "a" * 20 + "\u0661"])
def test_any_other_request_id_is_replaced(world: World, given: str | None):
    headers = {} if given is None else {"X-Request-Id": given.encode().decode("latin-1")}
    made = {world.anonymous.simulate_get(USER, headers=headers).headers["X-Request-Id"] for _ in range(2)}

    assert len(made) == 2
    assert given not in made
    assert all(PATTERN.fullmatch(each) for each in made)


def test_successes_have_request_ids_too(ada: Account):
    UUID(ada.client.simulate_get(USER).headers["X-Request-Id"])


def test_outside_of_a_request_log_lines_have_no_name():
    record = logging.makeLogRecord({})
    enter_request(None)

    assert RequestIdFilter().filter(record)
    assert PATTERN.fullmatch(record.request_id)  # type: ignore[attr-defined]


def test_an_unexpected_exception_is_an_internal_error(world: World, ada: Account, caplog: pytest.LogCaptureFixture):
    """The response gives none of its details."""

    world.storage.close()
    answered = ada.client.simulate_get(USER)

    assert answered.status_code == 500
    assert answered.json["error"]["code"] == "internal_error"
    assert "StorageClosed" not in answered.text
    assert "StorageClosed" in caplog.text


def test_a_database_that_others_hold_asks_to_try_again(world: World, pipeline: PipelinePath):
    build = pipeline.build()
    world.engine.refusal = DatabaseBusy("another process has held the database for 10 s: try again")
    answered = pipeline.account.client.simulate_put(f"{build.path}/cancel")

    assert answered.status_code == 503
    assert answered.json["error"]["code"] == "busy"
    assert answered.headers["Retry-After"] == "1"


def test_every_answer_has_the_security_headers(world: World, ada: Account):
    for answered in (
        ada.client.simulate_get(USER),
        world.anonymous.simulate_get(USER),
        world.anonymous.simulate_get("/nothing"),
        world.anonymous.simulate_get("/healthz"),
    ):
        assert answered.headers["X-Content-Type-Options"] == "nosniff"
        assert answered.headers["Referrer-Policy"] == "no-referrer"


def test_head_is_get_without_a_body(world: World, ada: Account):
    got, head = ada.client.simulate_get(USER), ada.client.simulate_head(USER)

    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["Content-Length"] == str(len(got.content))
    assert world.anonymous.simulate_head(USER).status_code == 401
    assert world.anonymous.simulate_head("/api/v0/nothing").status_code == 404


def test_options_names_the_methods(world: World):
    answered = world.anonymous.simulate_options("/api/v0/organizations")

    assert answered.status_code == 200
    assert set(answered.headers["Allow"].split(", ")) == {"GET", "POST", "HEAD"}


@pytest.mark.parametrize("path", ["/healthz", "/docs", "/docs/errors", "/api/v0/ping", USER, "/api/v0/organizations"])
def test_a_trailing_slash_is_the_same_path(ada: Account, path: str):
    plain, slashed = (ada.client.simulate_get(each) for each in (path, f"{path}/"))

    assert plain.status_code == slashed.status_code == 200
    if slashed.headers["Content-Type"] == "application/json":
        assert slashed.json == plain.json


def test_a_trailing_slash_is_the_same_path_for_every_method(ada: Account, pipeline: PipelinePath):
    build = {"branch": "main", "commit": "c0ffee", "pipeline_ir": HELLO}

    assert ada.client.simulate_post(f"{pipeline.path}/builds/", json=build).json["number"] == 1
    assert ada.client.simulate_put(f"{pipeline.path}/builds/1/cancel/").status_code == 200
    assert ada.client.simulate_delete(f"{pipeline.path}/").status_code == 204
    assert ada.client.simulate_get(f"{pipeline.path}/").json["error"]["code"] == "pipeline_not_found"
    answered = ada.client.simulate_put(f"{USER}/")
    assert answered.json["error"]["code"] == "method_not_allowed"
    assert answered.headers["Allow"] == ada.client.simulate_put(USER).headers["Allow"]
