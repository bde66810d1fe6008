"""Holds every answer that a test gets to the OpenAPI document, which must name its status, code and body."""

from __future__ import annotations

import json
from typing import Any

import falcon
from jsonschema import Draft202012Validator

from api.request import ApiRequest


class Conformity:
    """Middleware that fails an answer which the document does not describe, as a crash of the service would."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {}

    def process_response(self, req: ApiRequest, resp: falcon.Response, resource: object, req_succeeded: bool) -> None:
        described = self.document.get("paths", {}).get(req.uri_template, {}).get(req.method.lower())
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
        schema = {**content[media_type]["schema"], "components": self.document["components"]}
        fault = next(Draft202012Validator(schema).iter_errors(body), None)
        assert fault is None, f"{where}: {fault}"
        if "error" in body:
            assert body["error"]["code"] in content[media_type]["examples"], f"{where}: {body['error']['code']}"
