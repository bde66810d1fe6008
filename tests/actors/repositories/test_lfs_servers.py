"""Servers of git LFS that send the service elsewhere, or send it something else."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.repositories.fetching.git import CommitRefused
from actors.repositories.fetching.lfs import fetch_objects, object_path
from actors.repositories.fetching.mirror import Mirror
from actors.repositories.settings import RepositorySettings
from storage import GitCredential
from tests.git_repository import GitRepository
from tests.git_servers.https import HttpsServer, https_server

PASSWORD = GitCredential("ci", "correct horse")
CONTENT = b"a large file\n" * 1000
OID = hashlib.sha256(CONTENT).hexdigest()
BATCH, OBJECTS = "/objects/batch", "/lfs-objects/"


@pytest.fixture
def https(tmp_path: Path) -> Iterator[HttpsServer]:
    """A server of a repository whose object the tests ask for."""
    repository = GitRepository(tmp_path / "served")
    repository.commit()
    repository.push("main")
    stored = repository.bare / "lfs" / "objects" / OID[:2] / OID[2:4] / OID
    stored.parent.mkdir(parents=True)
    stored.write_bytes(CONTENT)
    with https_server(repository.bare.parents[1], tmp_path / "https") as server:
        yield server


@pytest.fixture
def nearby(tmp_path: Path, https: HttpsServer) -> Iterator[HttpsServer]:
    """Another server with the same object, whose authority is trusted."""
    with https_server(https.root, tmp_path / "nearby") as server:
        with https.ca_file.open("ab") as trusted:
            trusted.write(server.ca_file.read_bytes())
        yield server


@pytest.fixture
def mirror(https: HttpsServer, tmp_path: Path) -> Mirror:
    settings = RepositorySettings(ca_file=https.ca_file, fetch_timeout=60)
    made = Mirror(tmp_path / "mirror", https.url("acme/web.git"), settings, PASSWORD)
    made.fetch()
    https.requests.clear()
    return made


def fetched(mirror: Mirror) -> bytes:
    fetch_objects(mirror, "HEAD", {OID: len(CONTENT)})
    return object_path(mirror, OID).read_bytes()


def refused(mirror: Mirror) -> str:
    """Return why an object is not fetched; nothing of it is left then."""
    with pytest.raises(CommitRefused.__base__) as raised:
        fetched(mirror)
    assert [each for each in mirror.path.joinpath("lfs").rglob("*") if each.is_file()] == []
    return str(raised.value)


def batch(href: str) -> bytes:
    return json.dumps({"objects": [{"oid": OID, "size": 1, "actions": {"download": {"href": href}}}]}).encode()


@pytest.mark.parametrize("address", ["127.0.0.1", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433"])
@pytest.mark.parametrize("scheme", ["https", "http"])
@pytest.mark.parametrize("moved", [False, True])
def test_no_address_nearby_is_connected_to(mirror: Mirror, https: HttpsServer, address: str, scheme: str, moved: bool):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        target = f"{scheme}://{address}:{listening.getsockname()[1]}"
        if moved:
            https.moved[OBJECTS] = target
        else:
            https.replaced[BATCH] = batch(f"{target}/x")
        reason = refused(mirror)
        assert "has no public address" in reason or (moved and "redirects from https" in reason)
        listening.settimeout(0)
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_the_own_host_is_not_asked_without_encryption(mirror: Mirror, https: HttpsServer):
    """A name that is public when its repository is connected could lead to this host later."""
    https.replaced[BATCH] = batch("http://localhost:1/x")
    assert "localhost has no public address" in refused(mirror)


def test_redirects_are_followed_without_what_was_for_the_first(mirror: Mirror, https: HttpsServer, nearby: HttpsServer):
    """They are to a port of the own host, as an object store has."""
    https.moved[OBJECTS] = nearby.url("")[:-1]
    https.users["ci"] = nearby.users["nobody"] = PASSWORD.password
    assert "answers 401" in refused(mirror)
    nearby.users.clear()
    assert fetched(mirror) == CONTENT
    assert all("Authorization" not in headers for _, headers in nearby.requests)
    https.moved[OBJECTS] = https.url("")[:-1]
    object_path(mirror, OID).unlink()
    assert "redirects too often" in refused(mirror)


def test_a_batch_that_is_redirected_says_so(mirror: Mirror, https: HttpsServer, nearby: HttpsServer):
    https.moved[BATCH] = nearby.url("")[:-1]
    assert "redirects: give the URL that it redirects to" in refused(mirror)
    assert nearby.requests == []


@pytest.mark.parametrize(
    ("answered", "reason"),
    [
        (b"<html>", "something that the API of git LFS does not"),
        (b'{"objects": []}', f"does not have {OID}"),
        (b'{"transfer": "tus", "objects": []}', "only by tus"),
        (b'{"objects": ' + b" " * (5 << 20), "more than 4194304 bytes"),
        (batch("https://localhost:x/y"), "cannot be reached"),
        (batch("https://[::1/y"), "cannot be reached"),
        (batch("https:///y"), "git LFS is not fetched from https:///y"),
        (batch("https://localhost/\u00e9"), "git LFS is not fetched from"),
        (batch("gopher://localhost/y"), "git LFS is not fetched from gopher://localhost/y"),
    ],
)
def test_answers_that_lead_nowhere_are_told(mirror: Mirror, https: HttpsServer, answered: bytes, reason: str):
    https.replaced[BATCH] = answered
    assert reason in refused(mirror)


@pytest.mark.parametrize("sent", [b"x" * len(CONTENT), CONTENT[:-1], CONTENT + b"x", CONTENT * 1000])
def test_other_contents_are_not_kept(mirror: Mirror, https: HttpsServer, sent: bytes):
    https.replaced[OBJECTS] = sent
    assert "than" in refused(mirror)


def test_a_server_that_stops_ends_in_time(mirror: Mirror, https: HttpsServer):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        https.replaced[BATCH] = batch(f"https://localhost:{silent.getsockname()[1]}/x")
        mirror.seconds = 1.0
        assert "does not answer in time" in refused(mirror)
