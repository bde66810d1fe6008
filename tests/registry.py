"""Registries of OCI images on the loopback, with small images cut out of the default image."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import platform
import re
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import bcrypt

from actors.vms.host import IdMap, run_mapped
from tests.processes import ended
from tests.programs import unpacked_program
from tests.waiting import until

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
HERE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]

_PROGRAMS = "sh bash env tail tar gzip mount setsid unshare perl flock cat stat id cp rm mkdir sleep grep head wc sshd"
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
    """Return a layer's tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for entry in entries:
            info, content = entry if isinstance(entry, tuple) else (entry, b"")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def entry(name: str, content: str = "", uid: int = 0, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    """Return a regular file of a layer."""
    info = tarfile.TarInfo(name)
    info.uid, info.gid, info.mode = uid, uid, mode
    return info, content.encode()


def link(name: str, target: str) -> tarfile.TarInfo:
    """Return a symbolic link of a layer."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def small_system(image: Path, idmap: IdMap) -> list[bytes]:
    """Return the layers of a small system with a shell and an sshd, cut out of an image's tree."""
    cut = run_mapped(["chroot", ".", "sh", "-c", _CUT], idmap=idmap, cwd=image)
    links = [link(name, f"usr/{name}") for name in ("bin", "sbin", "lib", "lib64")]
    folder = tarfile.TarInfo("root")
    folder.type, folder.mode = tarfile.DIRTYPE, 0o700
    return [layer(*links, folder, *(entry(name, text, mode=0o644) for name, text in _ACCOUNTS.items())), cut]


def busybox() -> bytes:
    """Return the layer of a system that has only busybox."""
    program = unpacked_program("busybox")
    info = tarfile.TarInfo("bin/busybox")
    info.mode = 0o755
    names = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split()
    links = (link(f"bin/{name}", "busybox") for name in names if name != "busybox")
    return layer((info, Path(program).read_bytes()), *links)


def only_a_shell() -> bytes:
    """Return the layer of a system that has nothing but /bin/sh."""
    info = tarfile.TarInfo("bin/sh")
    info.mode = 0o755
    return layer((info, Path(unpacked_program("busybox")).read_bytes()))


@contextmanager
def store_beside(images_dir: Path, folder: Path) -> Iterator[Path]:
    """Make an image store with only the default image; it is removed with everything that is added to it."""
    idmap, default = IdMap.of_caller(), images_dir / "debian@12"
    ours = folder / default.name
    ours.mkdir(parents=True)
    (ours / "tree").symlink_to(default / "tree")
    shutil.copy(default / "image.json", ours)
    try:
        yield folder
        assert list(folder.glob(".making*")) == []
    finally:
        run_mapped(["rm", "-rf", folder.name], idmap=idmap.with_caller(), cwd=folder.parent)


@dataclass
class Registry:
    """A running registry.

    ``folder`` holds images before they are pushed, to ``pushed_to`` if that is another address; ``login`` is
    ``USER:PASSWORD`` if the registry asks for one.
    """

    address: str
    folder: Path
    login: str | None = None
    pushed_to: str | None = None

    def add(
        self, name: str, *layers: bytes, env: Mapping[str, str] = {}, architecture: str = HERE, **config: object
    ) -> str:
        """Push an image with these layers as ``NAME:TAG``; return the reference to pull."""
        return self._push(name, [_image(self.folder, layers, env, architecture, config)])

    def add_list(self, name: str, layers: Mapping[str, Sequence[bytes]]) -> str:
        """Push a list of images, one for each architecture; return the reference to pull."""
        return self._push(name, [_image(self.folder, each, {}, here, {}) for here, each in layers.items()])

    def times_asked(self, reference: str) -> int:
        """Count the requests for an image's manifest since the registry started."""
        name, _, tag = reference.removeprefix(f"{self.address}/").rpartition(":")
        return (self.folder / "log").read_text().count(f'"GET /v2/{name}/manifests/{tag} ')

    def digest(self, reference: str) -> str:
        """Return the digest of an image's manifest."""
        argv = ["skopeo", "inspect", "--tls-verify=false", "--raw", f"docker://{reference}"]
        return _digest(subprocess.run(argv, check=True, capture_output=True).stdout)

    def _push(self, name: str, images: list[dict[str, object]]) -> str:
        layout, reference = self.folder / "layout", f"{self.address}/{name}"
        if len(images) == 1:
            listed = images
        else:
            listed = [_blob(self.folder, json.dumps({"schemaVersion": 2, "manifests": images}).encode(), _INDEX)]
        (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": listed}))
        argv = ["skopeo", "copy", "--quiet", "--all", "--dest-tls-verify=false"]
        argv += ["--dest-creds", self.login] if self.login else []
        subprocess.run(
            [*argv, f"oci:{layout}", f"docker://{self.pushed_to or self.address}/{name}"],
            check=True,
            capture_output=True,
        )
        return reference


@dataclass
class StalledRegistry(Registry):
    """The images of another registry; their pulls begin, but no layer comes before ``released`` is set."""

    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def stalled(behind: Registry) -> Iterator[StalledRegistry]:
    """Serve the images of another registry, to which new ones are pushed too."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "/blobs/" in self.path:
                found.released.wait()
            self.close_connection = True
            with suppress(ConnectionError), closing(http.client.HTTPConnection(behind.address)) as connection:
                connection.request(self.command, self.path, headers=dict(self.headers))
                answer = connection.getresponse()
                kept = [f"{name}: {value}\r\n" for name, value in answer.getheaders()]
                self.wfile.write(f"HTTP/1.0 {answer.status} \r\n{''.join(kept)}\r\n".encode() + answer.read())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = False
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        found = StalledRegistry(f"127.0.0.1:{server.server_port}", behind.folder, pushed_to=behind.address)
        try:
            yield found
        finally:
            found.released.set()
            server.shutdown()
            thread.join()


def _image(
    folder: Path, layers: Sequence[bytes], env: Mapping[str, str], architecture: str, config: Mapping[str, object]
) -> dict[str, object]:
    """Write the blobs of an image; return its descriptor."""
    described = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": [f"{key}={value}" for key, value in env.items()], **config},
        "rootfs": {"type": "layers", "diff_ids": [_digest(each) for each in layers]},
    }
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _blob(folder, json.dumps(described).encode(), f"{kind}.config.v1+json"),
        "layers": [_blob(folder, _packed(each), f"{kind}.layer.v1.tar+gzip") for each in layers],
    }
    named = _blob(folder, json.dumps(manifest).encode(), MANIFEST)
    return {**named, "platform": {"architecture": architecture, "os": "linux"}}


def _blob(folder: Path, content: bytes, kind: str) -> dict[str, object]:
    blobs = folder / "layout" / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / _digest(content).removeprefix("sha256:")).write_bytes(content)
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


@lru_cache
def _packed(layer: bytes) -> bytes:
    return gzip.compress(layer, compresslevel=1, mtime=0)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _address(log: Path, process: subprocess.Popen[bytes]) -> str | None:
    """Return the address that a registry's log tells, None if it does not yet."""
    assert process.poll() is None, log.read_text()
    found = re.search(r"listening on ([0-9.:]+)", log.read_text())
    return found and found[1]


@contextmanager
def registry(folder: Path, login: str | None = None) -> Iterator[Registry]:
    """Serve a registry that stores its data in ``folder``, to everybody or only to ``USER:PASSWORD``."""
    program = unpacked_program("docker-registry")
    folder.mkdir(exist_ok=True)
    settings = {
        "version": "0.1",
        "log": {"formatter": "json"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "stored")}},
        "http": {"addr": "127.0.0.1:0", "secret": "none"},
    }
    if login is not None:
        user, _, password = login.partition(":")
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
        (folder / "htpasswd").write_text(f"{user}:{hashed}\n")
        settings["auth"] = {"htpasswd": {"realm": "registry", "path": str(folder / "htpasswd")}}
    (folder / "config.yml").write_text(json.dumps(settings))  # JSON is YAML
    log, argv = folder / "log", [program, "serve", str(folder / "config.yml")]
    with log.open("ab") as out, ended(subprocess.Popen(argv, stdout=out, stderr=out)) as process:
        address = until(lambda: _address(log, process), "the registry's address", 30)
        yield Registry(address, folder, login)
