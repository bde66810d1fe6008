"""Registries that send a pull elsewhere: to this host's loopback, or to its surroundings."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from actors.vms import VmError
from actors.vms.host import IdMap
from actors.vms.images import PullOptions, Reference
from actors.vms.images.registry import PullBounds, download
from actors.vms.images.registry_network import RegistryNetwork
from tests.mail_server import certificate
from tests.registry import HERE, MANIFEST

NAME, OTHER = "registry.test", "elsewhere.test"
CONFIG = json.dumps({"architecture": HERE, "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}).encode()


class Redirecting:
    """A registry with one image, whose blobs are at ``target``."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.server = server
        self.port = server.server_port
        self.target = ""
        self.layers: list[dict[str, object]] = []
        self.redirected: list[str] = []

    @property
    def reference(self) -> Reference:
        return Reference.parse(f"{NAME}:{self.port}/image:1")

    @property
    def manifest(self) -> bytes:
        digest = f"sha256:{hashlib.sha256(CONFIG).hexdigest()}"
        config = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": len(CONFIG)}
        described = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": self.layers}
        return json.dumps(described).encode()


@pytest.fixture
def reached() -> list[str]:
    """The paths that were asked of the other server."""
    return []


@pytest.fixture
def registry(tmp_path: Path, reached: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Redirecting]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.headers["Host"].partition(":")[0] != NAME:
                reached.append(self.path)
                self.answer(200, CONFIG, "application/octet-stream")
            elif "/blobs/" in self.path:
                made.redirected.append(self.path)
                self.answer(307, b"", "text/plain", Location=f"{made.target}{self.path}")
            else:
                self.answer(200, made.manifest if "/manifests/" in self.path else b"{}", MANIFEST)

        def answer(self, status: int, body: bytes, kind: str, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    context, trusted = certificate(tmp_path, NAME)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    look_up = socket.getaddrinfo

    def resolve(host: str, port: int, *arguments: Any, **options: Any) -> Any:
        return look_up("127.0.0.1" if host in {NAME, OTHER} else host, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
        ThreadingHTTPServer(("127.0.0.1", 0), Handler) as near,
    ):
        server.socket = context.wrap_socket(server.socket, server_side=True)
        made = Redirecting(server)
        made.target = f"http://127.0.0.1:{near.server_port}"
        threads = [threading.Thread(target=each.serve_forever, args=(0.01,)) for each in (server, near)]
        for thread in threads:
            thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            near.shutdown()
            for thread in threads:
                thread.join()


def pulled(registry: Redirecting, tmp_path: Path, **options: Any) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    bounds = PullBounds(folder, IdMap.of_caller(), PullOptions(max_bytes=1 << 30, timeout=30, **options))
    download(registry.reference, folder, bounds)


def test_a_redirect_to_the_loopback_reaches_nothing(registry: Redirecting, reached: list[str], tmp_path: Path):
    with pytest.raises(VmError, match="cannot be pulled"):
        pulled(registry, tmp_path)
    assert reached == []


def test_a_redirect_to_a_name_of_the_loopback_is_told(registry: Redirecting, reached: list[str], tmp_path: Path):
    registry.target = f"https://{OTHER}:{registry.port}"
    with pytest.raises(VmError, match=r"has no public address: allow its network in images\.networks"):
        pulled(registry, tmp_path)
    assert reached == []


def test_a_request_to_the_proxy_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    asks = """if True:
        import os, socket
        host, port = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as proxy:
            proxy.sendall(b"CONNECT " + b"x" * 20_000)
            print(proxy.recv(100).decode())
    """
    network = RegistryNetwork(NAME, IdMap.of_caller())
    with network.entered([sys.executable, "-c", asks], tmp_path, os.environ) as (argv, descriptors):
        answer = subprocess.run(argv, pass_fds=descriptors, capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.startswith("HTTP/1.1 403 its request has no end")


def test_a_redirect_to_a_configured_network_is_followed(registry: Redirecting, tmp_path: Path):
    registry.target = f"https://{OTHER}:{registry.port}"
    with pytest.raises(VmError, match="certificate"):  # so the other server was reached
        pulled(registry, tmp_path, networks=(ip_network("127.0.0.0/8"),))


def test_layers_with_urls_of_their_own_are_refused(registry: Redirecting, reached: list[str], tmp_path: Path):
    url = f"{registry.target}/layer"
    registry.layers = [{"mediaType": "a/b", "digest": f"sha256:{'0' * 64}", "size": 1, "urls": [url]}]
    with pytest.raises(VmError, match="has layers that are in no registry"):
        pulled(registry, tmp_path)
    assert reached == []


def test_the_broker_starts_a_pull_in_its_network(
    broker_address: str, idmap: IdMap, registry: Redirecting, reached: list[str], tmp_path: Path
):
    """The service may make no namespace where there is a broker."""
    with pytest.raises(VmError, match="cannot be pulled"):
        pulled(registry, tmp_path)
    assert registry.redirected
    assert reached == []
    script = 'id -u; echo "$WORD"; grep NoNewPrivs /proc/self/status; wc -l </proc/net/dev; cat "/proc/$PPID/cmdline"'
    environment = {"PATH": os.environ["PATH"], "WORD": "passed on"}
    with RegistryNetwork(NAME, idmap).entered(["sh", "-c", script], tmp_path, environment) as (argv, handles):
        done = subprocess.run(argv, pass_fds=handles, cwd=tmp_path, env=environment, check=True, capture_output=True)
    *lines, parent = done.stdout.decode().splitlines()
    headings_and_loopback = "3"
    assert lines == [f"{os.geteuid()}", "passed on", "NoNewPrivs:\t1", headings_and_loopback]
    assert parent.split("\0")[-2] == broker_address
