"""The operations that commands call are those of the OpenAPI document, with their fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import httpx
import pytest

from ci_daemon.remote import operations
from ci_daemon.remote.operations import Nothing, Operation, Page
from tests.ci_daemon.scripted_service import ScriptedService

CALLED: dict[str, Operation[Any]] = {
    name: each for name, each in vars(operations).items() if isinstance(each, Operation)
}
PARAMETER = re.compile(r"\{(\w+)\}")
Document = Mapping[str, Any]


@pytest.fixture
def document(service: ScriptedService) -> Document:
    found: Document = httpx.get(f"{service.url}/api/v0/openapi.json", timeout=30).json()
    return found


def resolved(document: Document, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema, or the component that it refers to."""
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Mapping[str, Any] = document["components"]["schemas"][name] if name else schema
    return found


def unread(document: Document, answer: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a data class that a schema does not have."""
    schema = resolved(document, schema)
    if get_origin(answer) is Page:
        assert schema["properties"].keys() <= {"data", "next_cursor"}
        yield from unread(document, get_args(answer)[0], schema["properties"]["data"]["items"])
        return
    hints = get_type_hints(answer)
    for field in fields(answer):
        if field.name not in schema["properties"]:
            yield f"{answer.__name__}.{field.name}"
            continue
        of_list = get_args(hints[field.name])[0] if get_origin(hints[field.name]) is list else hints[field.name]
        if is_dataclass(of_list):
            inner = schema["properties"][field.name]
            yield from unread(document, of_list, inner.get("items", inner))


def test_every_call_is_an_operation_of_the_document(document: Document):
    for name, called in CALLED.items():
        found = document["paths"].get(called.path, {}).get(called.method.lower())
        assert found is not None, f"{name}: no {called.method} {called.path}"
        assert found["operationId"] == called.id, name
        given = {each["name"]: each for each in found.get("parameters", ())}
        assert set(PARAMETER.findall(called.path)) == {key for key, each in given.items() if each["in"] == "path"}, name
        assert called.query <= {key for key, each in given.items() if each["in"] == "query"}, name
        body = found.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        taken = resolved(document, body)
        assert called.body <= taken.get("properties", {}).keys(), name
        assert set(taken.get("required", ())) <= called.body, name
        answers = [each for status, each in found["responses"].items() if status.startswith("2")]
        contents = [each.get("content", {}) for each in answers]
        json_answers = [each["application/json"] for each in contents if "application/json" in each]
        if called.answer is Nothing:
            assert json_answers == [], name
        else:
            assert list(unread(document, called.answer, json_answers[0]["schema"])) == [], name
