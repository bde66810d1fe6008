"""Each field of each record and of each request."""

from __future__ import annotations

import re
from datetime import date
from typing import Any
from uuid import UUID

import pytest
from falcon import testing

from tests.contract.reference import FIELDS, REQUESTS, Field
from tests.contract.scene import Scene

TABLE = "Fields of records and requests"

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
WRONG: dict[str, Any] = {"string": 7, "integer": "7", "boolean": "yes", "object": [], "array": 7, "date-time": "soon"}
WRONG_OF = {"installation_id": "seven"}
"""Wrong values of fields that take more than their type, such as a number as a string."""


@pytest.fixture(scope="module")
def records(seen: Scene) -> dict[str, testing.Result]:
    """A cache of the answer of each record's endpoint."""
    return {}


def is_a(kind: str, value: Any) -> bool:
    match kind:
        case "uuid":
            return UUID(value).version == 4
        case "date-time":
            return INSTANT.fullmatch(value) is not None
        case "date":
            return date.fromisoformat(value).isoformat() == value
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            return isinstance(value, TYPES[kind])


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.of}.{field.name}")
def test_a_record_has_the_field(seen: Scene, records: dict[str, testing.Result], field: Field):
    if field.of not in records:
        records[field.of] = seen.ask(field.endpoint)
    record = records[field.of].json
    for step in field.at:
        record = record[step]

    assert field.name in record
    value = record[field.name]
    assert (field.optional and value is None) or is_a(field.type, value), value


@pytest.mark.parametrize("field", REQUESTS, ids=lambda field: f"{field.of} {field.name}")
def test_a_request_has_the_field(seen: Scene, field: Field):
    body = seen.body(field.endpoint) or {}
    assert field.name in body
    faults = [{**body, field.name: WRONG_OF.get(field.name, WRONG[field.type])}]
    if not field.optional:
        faults += [{name: value for name, value in body.items() if name != field.name}, {**body, field.name: None}]
    for fault in faults:
        answered = seen.ask(field.endpoint, json=fault)
        assert (answered.status_code, answered.json["error"]["code"]) == (422, "invalid_body"), fault
        assert answered.json["error"]["message"].startswith(f"{field.name}:")
