"""The names that generated clients use (wire-decisions.md, "Names in the OpenAPI document")."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.api.conformity import conformity

NAMES = tomllib.loads((Path(__file__).parents[2] / "data" / "operation-names.toml").read_text())
OPERATIONS: dict[str, str] = NAMES["operations"]
SCHEMAS: dict[str, list[str]] = NAMES["schemas"]
NOT_YET: set[str] = set()
"""Operations that have a name but are not implemented yet: sign-in, source hosts."""


def described() -> dict[str, dict[str, Any]]:
    """Return the document's operations by method and path."""
    paths = conformity().document["paths"]
    return {
        f"{method.upper()} {path}": operation
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


def schema_of(holder: dict[str, Any]) -> str:
    """Return the name of the JSON body's schema; empty if there is no JSON body."""
    reference: str = holder.get("content", {}).get("application/json", {}).get("schema", {}).get("$ref", "")
    return reference.rpartition("/")[2]


def test_every_named_operation_is_there_but_those_to_come():
    assert set(OPERATIONS) - set(described()) == NOT_YET


@pytest.mark.parametrize("request_", sorted(set(OPERATIONS) - NOT_YET))
def test_an_operation_and_its_schemas_have_their_names(request_: str):
    operation = described()[request_]
    successes = {schema_of(answer) for status, answer in operation["responses"].items() if status.startswith("2")}

    assert operation["operationId"] == OPERATIONS[request_]
    body, answer = SCHEMAS[operation["operationId"]]
    assert schema_of(operation.get("requestBody", {})) == body
    assert successes == {answer}


def test_no_other_operation_takes_a_name_of_the_list():
    others = {operation["operationId"] for request, operation in described().items() if request not in OPERATIONS}
    assert not others & set(OPERATIONS.values())


@pytest.mark.parametrize("name", ["Error", "UsageSeriesBucket", "ApiToken", "OrgMember", "Transaction"])
def test_a_part_of_an_answer_has_its_name(name: str):
    assert name in conformity().document["components"]["schemas"]
