"""The rows of the contract, as dataclasses."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_REFERENCE = tomllib.loads(Path(__file__).with_name("reference.toml").read_text())
_RULES = tomllib.loads(Path(__file__).with_name("rules.toml").read_text())


@dataclass(frozen=True)
class Endpoint:
    """An endpoint: method and path, the callers that may use it, and the status of success."""

    request: str
    who: str
    status: int

    @property
    def method(self) -> str:
        return self.request.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.request.partition(" ")[2]


@dataclass(frozen=True)
class Field:
    """A field of a record or of a request; for a request, ``endpoint`` takes it in its body."""

    of: str
    name: str
    kind: str
    endpoint: Endpoint
    at: tuple[str | int, ...] = ()

    @property
    def optional(self) -> bool:
        return self.kind.endswith("?")

    @property
    def type(self) -> str:
        return self.kind.removesuffix("?")


@dataclass(frozen=True)
class Rule:
    """A rule in prose, and the tests that cover it."""

    section: str
    says: str
    tests: tuple[str, ...]


ENDPOINTS = {row[0]: Endpoint(*row) for row in _REFERENCE["endpoints"]}


def _record_fields(of: str, record: dict[str, Any]) -> list[Field]:
    endpoint, at = ENDPOINTS[record["from"]], tuple(record.get("at", ()))
    return [Field(of, name, kind, endpoint, at) for name, kind in record["fields"].items()]


FIELDS = [field for of, record in _REFERENCE["records"].items() for field in _record_fields(of, record)]
REQUESTS = [
    Field(request, name, kind, ENDPOINTS[request])
    for request, fields in _REFERENCE["requests"].items()
    for name, kind in fields.items()
]
RULES = [Rule(section, says, tuple(tests)) for section, rules in _RULES.items() for says, tests in rules.items()]
