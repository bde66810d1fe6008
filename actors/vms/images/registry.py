"""Images of OCI registries: copied here by skopeo, then unpacked by umoci, layer over layer."""

from __future__ import annotations

import json
import os
import platform
import pwd
import re
import shutil
import subprocess
from collections import deque
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from actors.vms.provider import VmError
from actors.vms.sandbox.userns import MappedFailed, run_mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from actors.vms.images.tree import Tree

__all__ = ["Pulled", "Reference"]

_LAYOUT = "layout"
_TAG = "image"
_REFERENCE = re.compile(
    r"((?P<host>localhost|[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+|[a-zA-Z0-9.-]+(?=:\d+/)|\[[0-9a-f:]+\])(?P<port>:\d+)?/)?"
    r"(?P<path>[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*)(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@sha256:[0-9a-f]{64})?"
)
_LONGEST_REFERENCE = 500
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([^\0]*)", re.ASCII)
_MOST_JSON = 8 << 20
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_SAID = re.compile(r'level=fatal msg="(?P<message>(?:[^"\\]|\\.)*)"')
_LAST_LINES = 5

_CAUSES = (
    (("manifest unknown", "name unknown", "not found"), "the registry has no such image: check its name and tag"),
    (
        ("unauthorized", "authentication required", "denied", "403 (Forbidden)", "invalid username"),
        "the registry wants somebody to sign in, or has no such image: run `skopeo login {host}` as {user}",
    ),
    (("no image found in",), "the registry has it, but not for this machine's architecture, {architecture}"),
    (
        ("no such host", "connection refused", "i/o timeout", "network is unreachable", "no route to host", "EOF"),
        "the registry {host} cannot be reached: check its name and this host's network",
    ),
    (
        ("x509", "certificate", "server gave HTTP response"),
        "the registry {host} does not prove who it is: add its authority with update-ca-certificates",
    ),
)


@dataclass(frozen=True, slots=True)
class Reference:
    """An image in a registry, as in ``debian:12-slim`` or ``ghcr.io/team/base:1``."""

    text: str
    host: str
    port: str

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read a reference, with or without ``docker://``. Raises VmError where it is none."""
        bare = text.removeprefix("docker://")
        found = _REFERENCE.fullmatch(bare) if len(bare) <= _LONGEST_REFERENCE else None
        if found is None:
            message = f'"{text[:_LONGEST_REFERENCE]}" names no image of a registry: write one like debian:12-slim'
            raise VmError(message)
        return cls(bare, found["host"] or "docker.io", found["port"] or "")

    def fetch(self, folder: Path, progress: Callable[[str], None]) -> Pulled:
        """Copy the image for this machine's architecture into ``folder``. Raises VmError with what to do."""
        for program in ("skopeo", "umoci"):
            if shutil.which(program) is None:
                message = f"{program} is not installed: run `sudo apt-get install -y skopeo umoci`"
                raise VmError(message)
        argv = ["skopeo", "--override-os=linux", "copy", "--remove-signatures"]
        argv += ["--src-tls-verify=false"] if self._is_on_loopback else []
        argv += [f"docker://{self.text}", f"oci:{_LAYOUT}:{_TAG}"]
        with subprocess.Popen(
            argv, cwd=folder, env={**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            assert process.stdout is not None  # noqa: S101 - a pipe
            last: deque[str] = deque(maxlen=_LAST_LINES)
            try:
                for line in process.stdout:
                    last.append(line.decode(errors="replace").strip())
                    if "level=" not in last[-1]:
                        progress(last[-1])
            except BaseException:
                process.terminate()
                raise
        if process.returncode != 0:
            raise VmError(self._sentence("\n".join(last)))
        return self._pulled(folder)

    @property
    def _is_on_loopback(self) -> bool:
        """Whether the registry is this host's own, which may well speak plain HTTP, as for docker."""
        try:
            return ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"

    def _sentence(self, said: str) -> str:
        """Turn what skopeo said at its end into what to do."""
        found = _SAID.search(said)
        reason = found["message"].replace('\\"', '"') if found else said
        user = pwd.getpwuid(os.geteuid()).pw_name
        facts = {"host": self.host + self.port, "architecture": _architecture(), "user": user}
        for fragments, sentence in _CAUSES:
            if any(fragment in reason for fragment in fragments):
                return f"{self.text} cannot be pulled: {sentence.format(**facts)} ({reason})"
        return f"{self.text} cannot be pulled: {reason}"

    def _pulled(self, folder: Path) -> Pulled:
        layout = folder / _LAYOUT
        try:
            (entry,) = _json(layout / "index.json")["manifests"]
            manifest = _json(_blob(layout, entry["digest"]))
            config = _json(_blob(layout, manifest["config"]["digest"]))
            architecture = str(config.get("architecture"))
            lines = (config.get("config") or {}).get("Env") or []
            variables = [found for line in lines if (found := _VARIABLE.fullmatch(line))]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"{self.text} is no image that a VM could start from: {error!r} in its manifest"
            raise VmError(message) from error
        if architecture != _architecture():
            message = f"{self.text} is for {architecture}, and this machine is {_architecture()}: pull another one"
            raise VmError(message)
        return Pulled(folder, {found[1]: found[2] for found in variables})


@dataclass(frozen=True, slots=True)
class Pulled:
    """An image's layers in a folder of the caller's, and the variables that its programs are to have."""

    folder: Path
    environment: Mapping[str, str]

    def unpack(self, tree: Tree) -> None:
        """Make a tree in the folder of the layers, inside the mapping; the layers are gone then. Raises VmError."""
        around = tree.idmap.with_caller()
        run_mapped(["chown", "-R", "0:0", _LAYOUT], idmap=around, cwd=self.folder)
        try:
            argv = ["umoci", "raw", "unpack", "--image", f"{_LAYOUT}:{_TAG}", tree.path.name]
            run_mapped(argv, idmap=tree.idmap, cwd=self.folder)
        except MappedFailed as error:
            message = f"the layers cannot be unpacked: {error}"
            raise VmError(message) from error
        run_mapped(["rm", "-rf", _LAYOUT], idmap=around, cwd=self.folder)


def _architecture() -> str:
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def _json(path: Path) -> Any:  # noqa: ANN401 - what a registry says, looked through by the caller
    with path.open("rb") as file:
        return json.loads(file.read(_MOST_JSON))


def _blob(layout: Path, digest: str) -> Path:
    found = _DIGEST.fullmatch(digest)
    if found is None:
        raise ValueError(digest)
    return layout / "blobs" / "sha256" / found[1]
