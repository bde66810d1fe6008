"""Secrets that a job's identity gets from Vault and from other services, which verify it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from actors.builds.attempt.secret_sources import SecretSources
from storage import SecretScope, SecretUnavailable, Storage, VerifiedEvent, networks_of
from tests.actors.conftest import Host
from tests.e2e.pipelines import one
from tests.vault_server import VaultServer, vault_server

HERE = networks_of(("127.0.0.0/8",))
VALUE = "hunter2-and-a-half"
OF_MAIN = {"verified_event": VerifiedEvent.PUSH, "verified_ref": "refs/heads/main"}


def served(storage: Storage) -> Iterator[VaultServer]:
    with vault_server(lambda: [dict(each) for each in storage.issuer_keys.public()]) as vault:
        vault.roles["deploy"] = {"ref": "refs/heads/main"}
        vault.secrets["secret/data/team/web"] = {"token": VALUE, "number": 1, "empty": "", "nul": "a\0b"}
        yield vault


@pytest.fixture
def vault(storage: Storage) -> Iterator[VaultServer]:
    yield from served(storage)


def source(vault: VaultServer, **changes: str) -> dict[str, str]:
    return {
        "kind": "vault",
        "url": vault.url,
        "audience": vault.url,
        "auth_mount": "jwt",
        "mount": "secret",
        "role": "deploy",
        "path": "team/web",
        "field": "token",
        **changes,
    }


def token(storage: Storage, vault: VaultServer, **changes: Any) -> str:
    now = int(time.time())
    claims = {"aud": vault.url, "iat": now, "exp": now + 600, "ref": "refs/heads/main", **changes}
    return storage.issuer_keys.signed(claims)


def test_vault_gives_a_value_to_the_identity_of_a_job(storage: Storage, vault: VaultServer):
    assert SecretSources(HERE).fetch("TOKEN", source(vault), token(storage, vault)) == VALUE
    assert vault.asked == ["/v1/auth/jwt/login", "/v1/secret/data/team/web"]


def test_any_service_gives_a_text_or_a_member(storage: Storage, vault: VaultServer):
    plain = {"kind": "http", "url": f"{vault.url}/plain", "audience": vault.url}
    given = token(storage, vault)
    assert SecretSources(HERE).fetch("TOKEN", {**plain, "field": "token"}, given) == "of-http\n"
    vault.raw = b"a text\n"
    assert SecretSources(HERE).fetch("TOKEN", plain, given) == "a text"


@pytest.mark.parametrize(
    ("changes", "claims", "reason"),
    [
        ({"role": "other"}, {}, "the sign-in as the role was answered by 403"),
        ({}, {"ref": "refs/heads/topic"}, "the sign-in as the role was answered by 403"),
        ({}, {"aud": "https://elsewhere.example"}, "the sign-in as the role was answered by 403"),
        ({}, {"exp": 1}, "the sign-in as the role was answered by 403"),
        ({"auth_mount": "oidc"}, {}, "the sign-in as the role was answered by 403"),
        ({"path": "team/api"}, {}, "the read was answered by 403"),
        ({"field": "none"}, {}, "the answer has no text none"),
        ({"field": "number"}, {}, "the answer has no text number"),
        ({"field": "empty"}, {}, "is empty there"),
        ({"field": "nul"}, {}, "or a NUL"),
    ],
)
def test_a_refusal_is_said_without_the_answer(
    storage: Storage, vault: VaultServer, changes: dict[str, str], claims: dict[str, Any], reason: str
):
    with pytest.raises(SecretUnavailable, match=reason) as raised:
        SecretSources(HERE).fetch("TOKEN", source(vault, **changes), token(storage, vault, **claims))
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"<html>", "by something else than JSON"),
        (b"[" * 100_000, "by something else than JSON"),
        (b"[]", "gives no token"),
        (b'{"auth": {"client_token": "a\\nb"}}', "gives no token"),
        (b"x" * (2 << 20), "it answers more than"),
    ],
)
def test_a_strange_answer_is_refused(storage: Storage, vault: VaultServer, raw: bytes, reason: str):
    vault.raw = raw
    with pytest.raises(SecretUnavailable, match=reason):
        SecretSources(HERE).fetch("TOKEN", source(vault), token(storage, vault))


def test_only_allowed_addresses_are_asked(storage: Storage, vault: VaultServer):
    with pytest.raises(SecretUnavailable, match=r"no public address: the owner may allow its network in jobs\.secret_"):
        SecretSources(()).fetch("TOKEN", source(vault), token(storage, vault))
    assert vault.asked == []


@pytest.mark.sandbox
def test_a_job_has_a_secret_from_elsewhere(host: Host):
    """A fork's has none, a branch's is refused there, and one that is limited is not asked for."""
    host.settings = replace(host.settings, jobs=replace(host.settings.jobs, secret_networks=("127.0.0.0/8",)))
    host.restart()
    scope, command = SecretScope(host.pipeline.organization_id), 'echo "[$TOKEN]" ${#TOKEN}'
    for vault in served(host.storage):
        plain = {name: value for name, value in source(vault).items() if name not in {"audience", "mount"}}
        made = host.storage.secrets.put_source(scope, "TOKEN", plain)
        assert made.source == source(vault)
        ir = one(command, runner_args={"secrets": ["TOKEN"]})
        for fields, state, log, code in (
            (OF_MAIN, "passed", b"[***] 18\n", None),
            ({**OF_MAIN, "untrusted_origin": "pull/1/7"}, "passed", b"[] 0\n", None),
            ({"verified_ref": "refs/heads/topic"}, "failed", b"", "secret_unavailable"),
        ):
            build = host.build(ir, **fields)
            assert host.finish(build).state == state, host.job(build).error_message
            assert host.log(build).endswith(log)
            assert host.job(build).error_code == code
        host.storage.secrets.limit(scope, "TOKEN", {"branches": ["release"]})
        asked = len(vault.asked)
        build = host.build(ir, **OF_MAIN)
        host.finish(build)
        assert (host.job(build).error_code, len(vault.asked)) == ("secret_not_allowed", asked)
