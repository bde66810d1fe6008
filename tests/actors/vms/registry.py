"""A registry of OCI images on the loopback, and images small enough for it, cut out of the default image."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from actors.vms.sandbox.userns import IdMap, run_mapped

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
HERE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]

_PROGRAMS = (
    "sh bash env tail tar gzip mount setsid unshare nsenter flock cat stat id cp rm mkdir sleep grep head wc sshd"
)
_CUT = f"""
for name in {_PROGRAMS}; do command -v "$name"; done >/tmp/$$
ldd $(cat /tmp/$$) | grep -o '/lib[^ ]*' | grep -v ':$' >>/tmp/$$
while read -r file; do echo "$(readlink -f "${{file%/*}}")/${{file##*/}}"; done </tmp/$$ | sort -u >/tmp/$$.files
tar -C / -chf - -T /tmp/$$.files 2>/dev/null
rm /tmp/$$*
"""
_ACCOUNTS = {
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nsshd:x:105:65534::/run/sshd:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}


def layer(*entries: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]) -> bytes:
    """A layer's tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for entry in entries:
            info, content = entry if isinstance(entry, tuple) else (entry, b"")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def entry(name: str, content: str = "", uid: int = 0, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    """A file of a layer."""
    info = tarfile.TarInfo(name)
    info.uid, info.gid, info.mode = uid, uid, mode
    return info, content.encode()


def link(name: str, target: str) -> tarfile.TarInfo:
    """A symbolic link of a layer."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def small_system(image: Path, idmap: IdMap) -> list[bytes]:
    """The layers of a system that a VM starts from, cut out of an image's tree."""
    cut = run_mapped(["chroot", ".", "sh", "-c", _CUT], idmap=idmap, cwd=image)
    links = [link(name, f"usr/{name}") for name in ("bin", "sbin", "lib", "lib64")]
    folder = tarfile.TarInfo("root")
    folder.type, folder.mode = tarfile.DIRTYPE, 0o700
    return [layer(*links, folder, *(entry(name, text, mode=0o644) for name, text in _ACCOUNTS.items())), cut]


@dataclass
class Registry:
    """What it has: blobs by their digest, and a manifest for each ``NAME:TAG``."""

    address: str
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)

    def add(self, name: str, *layers: bytes, env: Mapping[str, str] = {}, architecture: str = HERE) -> str:
        """Have an image of these layers, and return what it is pulled by."""
        kind = "application/vnd.oci.image.layer.v1.tar"
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {"Env": [f"{key}={value}" for key, value in env.items()]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(each) for each in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
            "layers": [self._blob(each, kind) for each in layers],
        }
        self.manifests[name] = json.dumps(manifest).encode()
        return f"{self.address}/{name}"

    def _blob(self, content: bytes, kind: str) -> dict[str, object]:
        self.blobs[_digest(content)] = content
        return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@contextmanager
def registry() -> Iterator[Registry]:
    """Serve a registry; what is called private is for those who sign in."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, content = self._answer()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815 - http.server's own name

        def _answer(self) -> tuple[int, str, bytes]:
            if self.path == "/v2/":
                return 200, "application/json", b"{}"
            name, place, wanted = self.path.removeprefix("/v2/").rsplit("/", 2)
            if name == "private":
                return 401, "application/json", b'{"errors": [{"code": "UNAUTHORIZED", "message": "sign in"}]}'
            manifest = served.manifests.get(f"{name}:{wanted}") if place == "manifests" else None
            content = manifest or served.blobs.get(wanted)
            if content is None:
                return 404, "application/json", b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "unknown"}]}'
            return 200, MANIFEST if place == "manifests" else "application/octet-stream", content

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Registry(f"127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
