"""The OpenAPI document, made of the declarations of endpoints, with examples."""

from __future__ import annotations

import re
from collections import defaultdict
from http import HTTPStatus
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import falcon
from pydantic.json_schema import models_json_schema

from api.errors.catalog import error_catalog
from api.errors.responses import ErrorRecord
from api.fields import UUID_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic import BaseModel

    from api.openapi.operations import Answer, Endpoint, Operation, Routes


_PREFIX = "#/components/schemas/"
_NULL = {"type": "null"}
_PLAIN: Mapping[str, Any] = MappingProxyType({"integer": 0, "number": 0, "boolean": False, "null": None})
_BY_NAME: Mapping[str, Any] = MappingProxyType(
    {
        "account": "ci-bot",
        "account_login": "ada",
        "account_type": "User",
        "action": "createBuild",
        "actor": "ada@example.org",
        "allow_manual": True,
        "body": "{}",
        "branch": "main",
        "checkout_url": "https://checkout.stripe.com/c/pay/cs_test_a1b2c3",
        "clone_url": "https://git.example.org/ada/hello.git",
        "code": "kX2m8Qd0wYvN5s1r",
        "gate_seconds": 604_800,
        "limit_seconds": 3600,
        "max_cents": 500,
        "timeout_seconds": 60,
        "times": 20,
        "command": "make test",
        "commit": "4f6d2a1c9b8e7d6c5b4a39281706f5e4d3c2b1a0",
        "concurrency_group": "deploy {branch}",
        "concurrency_limit": 1,
        "cron": "30 4 * * 1-5",
        "default_branch": "main",
        "delivery_id": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "depends_on": [],
        "description": "Unit tests and a release archive",
        "download_url": "https://ci.example.org/api/v0/organizations/ada-example-org/pipelines/hello/builds/1/artifacts"
        "/0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e/download",
        "env": {"LOG_LEVEL": "debug"},
        "event": "build.finished",
        "events": ["build.first_failure", "build.recovered"],
        "exit_code": 0,
        "file_size": 48213,
        "filename": "hello-1.0.tar.gz",
        "full_name": "ada/hello",
        "host_key_fingerprint": "SHA256:uNiVztksCsDhcc0u9e8BrzO1rVpbDPqBBYD5K3GYMjU",
        "image": "debian:12",
        "job": "Unit tests",
        "days": 14,
        "declared_in": ".hm/ci.yml",
        "email": "ada@example.org",
        "magic_link_token": "kX2m8Qd0wYvN5s1rJ7tLb3cHf9gEaZ4iUoP6xTqRnMk",
        "message": "Mend the parser",
        "mime_type": "application/gzip",
        "name": "Hello",
        "nickname": "Laptop",
        "note": "request 0b9d6f0e3f0c4a539d0a5f5f",
        "number": 1,
        "origin": "https://hooks.example.org",
        "org": "ada-example-org",
        "owner": "ada",
        "provider": "forgejo",
        "pull_request": 7,
        "path": "dist/hello-1.0.tar.gz",
        "pipeline": "hello",
        "personal_org_slug": "ada-example-org",
        "pipeline_ir": '{"version": "0", "steps": [{"type": "command", "key": "hi", "cmd": "echo hi"}]}',
        "pipeline_slug": "hello",
        "repo_name": "ada/hello",
        "repository": "https://git.example.org/ada/hello.git",
        "sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "script": "echo '#!/bin/sh' >hooks/post-receive",
        "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
        "slug": "hello",
        "source": "api",
        "state": "WyIwYjlkNmYwZSJd.Zm9yIHRoZSB0ZXN0",
        "source_sha256": "",
        "source_slug": "hello",
        "status": "ok",
        "services": ["db"],
        "step_key": "test",
        "subject": "ada-example-org/hello/1",
        "timezone": "Europe/Berlin",
        "token": "kX2m8Qd0wYvN5s1rJ7tLb3cHf9gEaZ4iUoP6xTqRnMk",
        "url": "https://example.org",
        "value": "hunter2",
        "verification_token": "kX2m8Qd0wYvN5s1rJ7tLb3cHf9gEaZ4iUoP6xTqRnMk",
    }
)

_REF = "#/components/schemas/{model}"
_SLUG = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]+(?:-[a-z0-9]+)*$"}
_SECURITY: Mapping[str, list[dict[str, list[str]]]] = {
    "bearer": [{"bearer": []}],
    "optional": [{"bearer": []}, {}],
    "log_token": [{"bearer": []}, {"logToken": []}, {}],
    "metrics": [{"metricsToken": []}, {}],
    "public": [],
}
_ABOUT = """A continuous-integration service: pipelines are planned into jobs, each job runs in a VM leased for it.

All bodies are JSON. Every error has the same form: branch on its `code`; its `doc_url` is a page that says what to do.
Lists are pages: `limit` (1 to 100) and `cursor`, the `next_cursor` of the page before."""


def example_of(schema: Mapping[str, Any], components: Mapping[str, Any], name: str = "") -> Any:  # noqa: ANN401 - any JSON
    """Return an example for the JSON Schema of the field ``name``, or of a whole body.

    A string or an object that may be null is null, unless its field has an example in the table above. Raises
    LookupError for another string without an example.
    """
    if "$ref" in schema:
        return example_of(components[schema["$ref"].removeprefix(_PREFIX)], components)
    if (given := next((schema[key] for key in ("examples", "enum") if key in schema), None)) is not None:
        return given[0]
    if name in _BY_NAME:
        return _BY_NAME[name]
    if (choices := next((schema[key] for key in ("anyOf", "oneOf", "allOf") if key in schema), None)) is not None:
        return None if _NULL in choices and _is_bare(choices[0]) else example_of(choices[0], components, name)
    return _of_parts(schema, components, name)


def _is_bare(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema allows any string or any object, so that an example says nothing."""
    return schema.get("type") in {"string", "object"} and not schema.keys() & {"examples", "enum", "properties"}


def _of_parts(schema: Mapping[str, Any], components: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - any JSON
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {part: example_of(properties[part], components, part) for part in properties}
        case "array":
            return [example_of(schema["items"], components, name)]
        case str() as plain if plain in _PLAIN:
            return _PLAIN[plain]
        case _:
            raise LookupError(f"the field {name!r} has no example: {dict(schema)}")


def document(routes: Routes, base_url: str) -> dict[str, Any]:
    """Return the document of all operations of these routes, for a service at ``base_url``."""
    schemas, names = _components(endpoint.operation for endpoint in routes.endpoints)
    writer = _OperationWriter(schemas, names, base_url)
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for endpoint in routes.endpoints:
        paths[endpoint.path][endpoint.method] = writer.operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "ci-daemon", "version": version("ci-daemon"), "description": _ABOUT},
        "servers": [{"url": base_url}],
        "tags": [{"name": tag} for tag in dict.fromkeys(_tag(endpoint) for endpoint in routes.endpoints)],
        "paths": dict(paths),
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A session token or an API key."},
                "logToken": {"type": "apiKey", "in": "query", "name": "token", "description": "A build's log token."},
                "metricsToken": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`http.metrics_token` of the configuration.",
                },
            },
        },
    }


def _components(operations: Iterable[Operation]) -> tuple[dict[str, Any], dict[type[BaseModel], str]]:
    """Return the schemas of all bodies and records by name, and the name of each model."""
    inputs: dict[type[BaseModel], None] = {}
    outputs: dict[type[BaseModel], None] = {ErrorRecord: None}
    for described in operations:
        if described.body is not None:
            inputs[described.body] = None
        outputs |= {answer.model: None for answer in described.answers if answer.model is not None}
    _, generated = models_json_schema(
        [*((model, "validation") for model in inputs), *((model, "serialization") for model in outputs)],
        ref_template=_REF,
    )
    renamed = {name: _plain(name) for name in generated["$defs"]}
    schemas = {renamed[name]: _with_plain_refs(schema, renamed) for name, schema in generated["$defs"].items()}
    return schemas, {model: _plain(model.__name__) for model in (*inputs, *outputs)}


def _plain(name: str) -> str:
    """Return a model's name in the document: ``PageRecord[BuildRecord]`` is a BuildList."""
    page = re.fullmatch(r"PageRecord[\[_](\w+?)Record[\]_]", name)
    return f"{page[1]}List" if page else name.removesuffix("Record")


def _with_plain_refs(schema: Any, renamed: Mapping[str, str]) -> Any:  # noqa: ANN401 - any JSON
    """Return the schema with plain names, without titles, and without defaults of null.

    Client generators assume that a field with a default is always present.
    """
    if isinstance(schema, dict):
        wanted = {key: part for key, part in schema.items() if not _is_left_out(key, part)}
        kept = {key: _with_plain_refs(part, renamed) for key, part in wanted.items()}
        if "$ref" in kept:
            prefix, _, name = kept["$ref"].rpartition("/")
            kept["$ref"] = f"{prefix}/{renamed.get(name, name)}"
        return kept
    if isinstance(schema, list):
        return [_with_plain_refs(part, renamed) for part in schema]
    return schema


def _is_left_out(key: str, part: object) -> bool:
    """Tell whether a schema goes without a keyword; a property of that name has a schema."""
    return (key == "title" and isinstance(part, str)) or (key, part) == ("default", None)


def _tag(endpoint: Endpoint) -> str:
    """Return an endpoint's tag: its module among operations and resources, or its package outside of them."""
    _, room, *_, module = endpoint.function.__module__.split(".")
    return endpoint.operation.tag or (module if room in {"operations", "resources"} else room).replace("_", " ")


class _OperationWriter:
    """Writes single operations, with examples, using the schemas of the whole document."""

    def __init__(self, schemas: dict[str, Any], names: dict[type[BaseModel], str], base_url: str) -> None:
        self._schemas = schemas
        self._names = names
        self._base_url = base_url
        self._path_parameters = _path_parameters()

    def operation(self, endpoint: Endpoint) -> dict[str, Any]:
        """Return one operation object."""
        declared = endpoint.operation
        summary, _, description = (endpoint.function.__doc__ or declared.id).strip().partition("\n")
        written: dict[str, Any] = {
            "operationId": declared.id,
            "tags": [_tag(endpoint)],
            "summary": summary.rstrip("."),
            "security": _SECURITY[declared.security],
            "parameters": [*self._in_path(endpoint.path), *self._parameters(declared)],
            "responses": self._responses(declared),
        }
        if description.strip():
            written["description"] = " ".join(description.split())
        if declared.body is not None:
            written["requestBody"] = {"required": declared.body_required, "content": self._json(declared.body)}
        return written

    def _in_path(self, path: str) -> list[dict[str, Any]]:
        found = (
            (path[: each.start()].removesuffix("/").rpartition("/")[2], each[1])
            for each in re.finditer(r"{(\w+)}", path)
        )
        described = ((name, *self._path_parameter(before, name)) for before, name in found)
        return [
            {"name": name, "in": "path", "required": True, "description": text, "schema": dict(schema)}
            for name, text, schema in described
        ]

    def _path_parameter(self, before: str, name: str) -> tuple[str, Mapping[str, Any]]:
        """Return the description and the schema of a parameter behind a part of a path."""
        return self._path_parameters.get(f"{before}/{name}") or self._path_parameters[name]

    def _parameters(self, declared: Operation) -> list[dict[str, Any]]:
        return [
            {
                "name": parameter.name,
                "in": parameter.location,
                "required": parameter.required,
                "description": parameter.description,
                "schema": dict(parameter.schema),
            }
            for parameter in declared.parameters
        ]

    def _responses(self, declared: Operation) -> dict[str, Any]:
        """Return the responses by status; answers and an error of one status have all of their media types."""
        responses: dict[str, Any] = {}
        for each in declared.answers:
            made = self._success(each)
            before = responses.setdefault(str(each.status), made)
            if before is not made:
                before["description"] += f" {made['description']}"
                before["content"] = {**before["content"], **made["content"]}
        for status, failure in self._failures(declared).items():
            answer = responses.setdefault(status, failure)
            answer["content"] = {**answer["content"], **failure["content"]}
        return responses

    def _success(self, answer: Answer) -> dict[str, Any]:
        written: dict[str, Any] = {"description": answer.description}
        if answer.model is not None:
            written["content"] = self._json(answer.model)
        elif answer.media_type is not None:
            text = answer.media_type in {"text/plain", "text/html"}
            written["content"] = {answer.media_type: {"schema": {"type": "string"} if text else {}}}
        if answer.headers:
            written["headers"] = {
                name: {"description": text, "schema": {"type": "string"}} for name, text in answer.headers.items()
            }
        return written

    def _failures(self, declared: Operation) -> dict[str, Any]:
        by_status: dict[int, list[str]] = defaultdict(list)
        for code in declared.every_error:
            by_status[error_catalog()[code].status].append(code)
        return {str(status): self._failure(status, by_status[status]) for status in sorted(by_status)}

    def _failure(self, status: int, codes: list[str]) -> dict[str, Any]:
        content = {
            "schema": {"$ref": _REF.format(model="Error")},
            "examples": {
                code: {"summary": error_catalog()[code].meaning, "value": self._envelope(code)} for code in codes
            },
        }
        return {"description": HTTPStatus(status).phrase, "content": {falcon.MEDIA_JSON: content}}

    def _envelope(self, code: str) -> dict[str, Any]:
        problem = error_catalog()[code]
        return {
            "error": {
                "type": problem.type,
                "code": code,
                "message": problem.meaning,
                "request_id": "3f0c4a539d0a5f5f9d6c1d2e0b9d6f0e",
                "doc_url": f"{self._base_url}/docs/errors/{code}",
            }
        }

    def _json(self, model: type[BaseModel]) -> dict[str, Any]:
        schema = {"$ref": _REF.format(model=self._names[model])}
        return {falcon.MEDIA_JSON: {"schema": schema, "example": example_of(schema, self._schemas)}}


def _path_parameters() -> Mapping[str, tuple[str, Mapping[str, Any]]]:
    """Return the description and the schema of parameters in paths, or of one behind a part of them."""
    return {
        "org": ("Slug of the organization.", {**_SLUG, "examples": ["ada-example-org"]}),
        "pipeline": ("Slug of the pipeline.", {**_SLUG, "examples": ["hello"]}),
        "service": ("Name of a service of the job.", {**_SLUG, "examples": ["db"]}),
        "number": ("Number of the build in its pipeline.", {"type": "integer", "minimum": 1, "examples": [1]}),
        "job_id": ("Id of the job.", UUID_SCHEMA),
        "terminal": ("Id of the terminal.", UUID_SCHEMA),
        "preview": ("Id of the preview.", UUID_SCHEMA),
        "delivery": ("Id of the delivery.", UUID_SCHEMA),
        "entry": ("Id of the entry.", UUID_SCHEMA),
        "proof": ("Id of the proof.", UUID_SCHEMA),
        "quarantined": ("Id of the test in quarantine.", UUID_SCHEMA),
        "delivery_id": ("Id of the delivery.", UUID_SCHEMA),
        "build_id": ("UUID of the build.", UUID_SCHEMA),
        "user_id": ("Id of the user.", UUID_SCHEMA),
        "host": (
            "Host of a registry, and perhaps its port.",
            {"type": "string", "maxLength": 255, "examples": ["registry.example.com"]},
        ),
        "machine": ("Name of the machine account.", {**_SLUG, "examples": ["deploy-bot"]}),
        "id": ("Id of the record.", UUID_SCHEMA),
        "installations/id": ("Number of the installation at GitHub.", {"type": "integer", "examples": [4711]}),
        "workspaces/id": (
            "Slug of the workspace at Bitbucket.",
            {"type": "string", "minLength": 1, "examples": ["acme"]},
        ),
        "uuid": ("Id of the passkey.", UUID_SCHEMA),
        "name": (
            "Name of the secret.",
            {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "examples": ["TOKEN"]},
        ),
        "provider": (
            "Name of the OpenID Connect issuer in the configuration.",
            {"type": "string", "pattern": "^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$", "maxLength": 40, "examples": ["corp"]},
        ),
        "code": ("Code of the error.", {"type": "string", "enum": sorted(error_catalog())}),
    }
