"""Examples for the OpenAPI document: plain fields have them by name, bodies are composed. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        "step_key": "test",
        "subject": "ada-example-org/hello/1",
        "timezone": "Europe/Berlin",
        "token": "kX2m8Qd0wYvN5s1rJ7tLb3cHf9gEaZ4iUoP6xTqRnMk",
        "url": "https://example.org",
        "value": "hunter2",
        "verification_token": "kX2m8Qd0wYvN5s1rJ7tLb3cHf9gEaZ4iUoP6xTqRnMk",
    }
)


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
