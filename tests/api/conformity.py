"""Middleware that holds every answer of a test to the OpenAPI document: its status, code and body."""

from __future__ import annotations

import json
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import falcon
from falcon import testing
from jsonschema import Draft202012Validator

from api import HttpSettings, create_app
from api.request import ApiRequest
from tests.clock import ManualClock
from tests.fake_engine import FakeEngine
from tests.state import new_storage


@cache
def conformity() -> Conformity:
    """Return the middleware, made once: the document is the same for every service, and slow to make."""
    clock = ManualClock()
    with TemporaryDirectory() as folder, closing(new_storage(Path(folder) / "state", clock)) as storage:
        app = create_app(storage, FakeEngine(storage, clock), HttpSettings(base_url="https://ci.example.org"))
        return Conformity(testing.TestClient(app).simulate_get("/api/v0/openapi.json").json)


class Conformity:
    """Middleware that raises if the document does not describe an answer; the client sees a server error."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._validators: dict[str, Draft202012Validator] = {}

    def process_response(self, req: ApiRequest, resp: falcon.Response, resource: object, req_succeeded: bool) -> None:
        described = self.document["paths"].get(req.uri_template, {}).get(req.method.lower())
        if described is None:
            return
        status = str(resp.status_code)
        where = f"{described['operationId']} {status}"
        answer = described["responses"].get(status)
        assert answer is not None, f"{where}: the status is not in the document"
        content = answer.get("content", {})
        if not content:
            assert not resp.data, f"{where}: has a body"
            return
        media_type = (resp.content_type or "").partition(";")[0]
        assert media_type in content, f"{where}: {media_type} is not in the document"
        if resp.data is None or media_type != "application/json":
            return
        body = json.loads(resp.data)
        if where not in self._validators:
            schema = {**content[media_type]["schema"], "components": self.document["components"]}
            self._validators[where] = Draft202012Validator(schema)
        fault = next(self._validators[where].iter_errors(body), None)
        assert fault is None, f"{where}: {fault}"
        if "error" in body:
            assert body["error"]["code"] in content[media_type]["examples"], f"{where}: {body['error']['code']}"
