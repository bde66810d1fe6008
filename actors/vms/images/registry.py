"""Images of OCI registries: copied by skopeo, then unpacked by umoci, layer over layer.

A pull has bounds: the image's bytes and files, the time, and the space left on the host's disk.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import pwd
import re
import shutil
import signal
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.vms.host.ids import run_mapped
from actors.vms.images.image import ImageProgram, ImageTooLarge, InsufficientDisk
from actors.vms.images.registry_network import RegistryNetwork
from actors.vms.images.tree import Tree
from actors.vms.launcher.broker import ENVIRONMENT
from actors.vms.provider import VmError
from actors.vms.watched_process import run
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from ipaddress import IPv4Network, IPv6Network

    from actors.vms.host.ids import IdMap
    from actors.vms.images.image import Reference
    from storage import RegistryAccount


_LAYOUT = "layout"
_TAG = "image"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([^\0]*)", re.ASCII)
_EXPOSED = re.compile(r"([0-9]{1,5})(/tcp)?", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,2}", re.ASCII)
_MOST_SIGNAL = 64
_MOST_PORT = 65535
_MAX_JSON_BYTES = 8 << 20
_MAX_CONTAINERS = 100_000
_MAX_LAYERS = 500
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_SKOPEO_ERROR = re.compile(r'level=fatal msg="(?P<message>(?:[^"\\]|\\.)*)"')
_LAST_LINES = 5
_PROGRESS_SECONDS = 2.0

_REFUSED = ("unauthorized", "authentication required", "denied", "403 (Forbidden)", "invalid username")
_CAUSES = (
    (
        ("toomanyrequests", "too many requests", "Too Many Requests"),
        "the registry {host} has a limit on requests: log in, or try again later",
    ),
    (("manifest unknown", "name unknown", "not found"), "the registry has no such image: check its name and tag"),
    (
        _REFUSED,
        (
            "the registry requires a login, or has no such image: run `skopeo login --authfile {auth} {host}` as {user}"
            ", or `ci-daemon registry login ORG {host}` for builds of an organization that are of no fork"
        ),
    ),
    (
        ("no such host", "connection refused", "i/o timeout", "network is unreachable", "no route to host", "EOF"),
        "the registry {host} cannot be reached: check its name and this host's network",
    ),
    (
        ("x509", "certificate", "server gave HTTP response"),
        "this host does not trust the certificate of the registry {host}: add its CA with update-ca-certificates",
    ),
)


@immutable
class DownloadedImage:
    """An image's layers in the caller's folder, its environment variables and its program as a service.

    ``digest`` is its repository and the digest of its manifest for this machine.
    """

    folder: Path
    environment: Mapping[str, str]
    program: ImageProgram
    digest: str

    def unpack(self, tree: Tree, bounds: PullBounds) -> None:
        """Unpack the layers into a tree in the same folder, inside the mapping, and remove the layers.

        Raises VmError, and what the check of the bounds raises.
        """
        around = tree.idmap.with_caller()
        run_mapped(["chown", "-R", "0:0", _LAYOUT], idmap=around, cwd=self.folder)
        argv = ["umoci", "raw", "unpack", "--image", f"{_LAYOUT}:{_TAG}", tree.path.name]
        environment = {**ENVIRONMENT, "HOME": "/", "LC_ALL": "C.UTF-8"}
        result = run(tree.idmap.command(argv), cwd=self.folder, environment=environment, check=bounds.check)
        if result.status != 0:
            message = f"the layers cannot be unpacked: {_last_lines(result.output)}"
            raise VmError(message)
        run_mapped(["rm", "-rf", _LAYOUT], idmap=around, cwd=self.folder)
        bounds.measure()


def download(reference: Reference, folder: Path, bounds: PullBounds) -> DownloadedImage:
    """Copy the image for this machine's architecture into ``folder``.

    Raises VmError, whose message says what to do, and the errors of the bounds' check.
    """
    for program in ("skopeo", "umoci"):
        if shutil.which(program) is None:
            message = f"{program} is not installed: run `sudo apt-get install -y skopeo umoci`"
            raise VmError(message)
    return _Download(reference, folder, bounds).pulled()


@dataclass(slots=True)
class _Download:
    """The download of one image from its registry."""

    reference: Reference
    folder: Path
    bounds: PullBounds
    _last_received: float = field(default_factory=time.monotonic)
    _last_progress: float = field(default_factory=time.monotonic)
    _bytes: int = 0

    def pulled(self) -> DownloadedImage:
        wanted, size = self._find()
        self.bounds.expect(size)
        self.bounds.options.progress(f"pulling {self.reference.short}: {megabytes(size)} MB")
        argv = ["copy", "--remove-signatures", f"docker://{wanted.text}", f"oci:{_LAYOUT}:{_TAG}"]
        self._skopeo(argv, "--src-tls-verify=false", lambda: self._follow(size))
        return self._layers(wanted)

    def _find(self) -> tuple[Reference, int]:
        """Return the manifest for this machine, by its digest, and the bytes of the parts that it lists."""
        wanted, manifest = self._manifest(self.reference)
        if "manifests" in manifest:
            wanted, manifest = self._manifest(self.reference.at(self._of_this_machine(manifest)))
        try:
            layers = list(manifest["layers"])
            parts = [manifest["config"], *layers]
            size = sum(int(part["size"]) for part in parts)
            elsewhere = any(part.get("urls") for part in parts)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._unusable(error) from error
        if elsewhere:
            raise VmError(f"{self.reference.short} cannot be pulled: it has layers that are in no registry")
        if len(layers) > _MAX_LAYERS:
            message = f"{self.reference.short} cannot be pulled: it has more than {_MAX_LAYERS} layers"
            raise VmError(message)
        return wanted, size

    def _manifest(self, reference: Reference) -> tuple[Reference, dict[str, Any]]:
        with tempfile.TemporaryFile(dir=self.folder) as file:
            argv = ["inspect", "--raw", f"docker://{reference.text}"]
            self._skopeo(argv, "--tls-verify=false", self._check_silence, stdout=file)
            file.seek(0)
            raw = file.read(_MAX_JSON_BYTES)
        try:
            manifest = _parsed(raw)
            if not isinstance(manifest, dict):
                raise TypeError(manifest)
        except (TypeError, ValueError) as error:
            raise self._unusable(error) from error
        return reference.at(f"sha256:{hashlib.sha256(raw).hexdigest()}"), manifest

    def _of_this_machine(self, manifest: Mapping[str, Any]) -> str:
        """Return the digest of this machine's image in a list of images. Raises VmError if there is none."""
        try:
            found = {
                entry["platform"]["architecture"]: str(entry["digest"])
                for entry in reversed(manifest["manifests"])
                if entry["platform"]["os"] == "linux"
            }
        except (KeyError, TypeError) as error:
            raise self._unusable(error) from error
        digest = found.get(_architecture(), "")
        if not _DIGEST.fullmatch(digest):
            there = ", ".join(sorted(map(str, found))) or "none"
            message = f"{self.reference.short} is for {there}, and this machine is {_architecture()}: pull another one"
            raise VmError(message)
        return digest

    def _skopeo(
        self,
        argv: list[str],
        insecure: str,
        check: Callable[[], None],
        stdout: Any = None,  # noqa: ANN401 - a file
    ) -> None:
        """Run skopeo. Raises VmError if it fails; the message says what to do."""
        insecurely = [insecure] if self.reference.on_loopback else []
        environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(self.folder)}
        command = ["skopeo", "--override-os=linux", argv[0], *insecurely, *argv[1:]]
        self._last_received = time.monotonic()
        with _login_file(self.bounds.options.login) as (variables, files):
            environment |= variables
            with self._network().entered(command, self.folder, environment) as (entering, handles):
                inherited = (*handles, *files)
                result = run(
                    entering, cwd=self.folder, environment=environment, check=check, stdout=stdout, pass_fds=inherited
                )
        if result.status != 0:
            raise VmError(self._explain(result.output))

    def _network(self) -> RegistryNetwork:
        networks = self.bounds.options.networks
        return RegistryNetwork(
            self.reference.registry, self.bounds.idmap, networks, this_host=self.reference.on_loopback
        )

    def _check_silence(self) -> None:
        """Raise VmError if the registry has sent nothing for too long, and as the check of the bounds."""
        self.bounds.check()
        timeout = self.bounds.options.timeout
        if time.monotonic() - self._last_received > timeout:
            message = (
                f"{self.reference.short} cannot be pulled: the registry {self.reference.registry} sent nothing for "
                f"{timeout:g} s"
            )
            raise VmError(message)

    def _follow(self, size: int) -> None:
        """Measure the bytes received: report the progress, and check the bounds."""
        now, came = time.monotonic(), _size(self.folder / _LAYOUT)
        if came != self._bytes:
            self._bytes, self._last_received = came, now
        if came > self.bounds.options.max_bytes:
            self.bounds.expect(came)
        if now - self._last_progress >= _PROGRESS_SECONDS:
            self._last_progress = now
            self.bounds.options.progress(
                f"pulling {self.reference.short}: {megabytes(min(came, size))} of {megabytes(size)} MB"
            )
        self._check_silence()

    def _explain(self, output: str) -> str:
        """Turn skopeo's error into a message that says what to do."""
        found = _SKOPEO_ERROR.search(output)
        reason = found["message"].replace('\\"', '"') if found else _last_lines(output)
        account = pwd.getpwuid(os.geteuid())
        facts = {
            "host": self.reference.registry,
            "user": account.pw_name,
            "auth": f"{account.pw_dir}/.config/containers/auth.json",
        }
        if self.bounds.options.login is not None and any(fragment in reason for fragment in _REFUSED):
            return (
                f"{self.reference.short} cannot be pulled: the registry {self.reference.registry} has no such image for"
                " the organization's login: check its name, or log in anew by `ci-daemon registry login`"
                f" ({reason})"
            )
        for fragments, sentence in _CAUSES:
            if any(fragment in reason for fragment in fragments):
                return f"{self.reference.short} cannot be pulled: {sentence.format(**facts)} ({reason})"
        return f"{self.reference.short} cannot be pulled: {reason}"

    def _layers(self, wanted: Reference) -> DownloadedImage:
        layout = self.folder / _LAYOUT
        try:
            (entry,) = read_json(layout / "index.json")["manifests"]
            manifest = read_json(_blob(layout, entry["digest"]))
            config = read_json(_blob(layout, manifest["config"]["digest"]))
            architecture = str(config.get("architecture"))
            defaults = config.get("config") or {}
            variables = [found for line in defaults.get("Env") or [] if (found := _VARIABLE.fullmatch(line))]
            program = program_of(defaults)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._unusable(error) from error
        if architecture != _architecture():
            message = (
                f"{self.reference.short} is for {architecture}, and this machine is {_architecture()}: pull another one"
            )
            raise VmError(message)
        return DownloadedImage(self.folder, {found[1]: found[2] for found in variables}, program, wanted.text)

    def _unusable(self, error: Exception) -> VmError:
        return VmError(
            f"{self.reference.short} is not an image that a VM can start from: its manifest is invalid ({error!r})"
        )


def program_of(config: Mapping[str, Any]) -> ImageProgram:
    """Return the program of an image's configuration. Raises TypeError if it is invalid."""
    words = [config.get(name) or [] for name in ("Entrypoint", "Cmd")]
    user, folder = config.get("User") or "", config.get("WorkingDir") or "/"
    for each in (*words[0], *words[1], user, folder):
        if not isinstance(each, str) or "\0" in each:
            raise TypeError(each)
    whole = folder.startswith("/") and ".." not in folder.split("/")
    stop_signal, port = _signal_of(config.get("StopSignal")), _port_of(config.get("ExposedPorts") or {})
    return ImageProgram(tuple(words[0]), tuple(words[1]), user, folder if whole else "/", stop_signal, port)


def _signal_of(text: object) -> int:
    """Return the number of a signal that an image names or numbers; TERM for none, and for what is none."""
    name, _, above = str(text or "TERM").upper().removeprefix("SIG").partition("+")
    first = int(name) if _NUMBER.fullmatch(name) else int(getattr(signal, f"SIG{name}", 0))
    number = first + (int(above) if _NUMBER.fullmatch(above) else 0)
    return number if first >= 1 and number <= _MOST_SIGNAL else int(signal.SIGTERM)


def _port_of(exposed: Mapping[str, object]) -> int | None:
    """Return the only TCP port that an image exposes. Raises TypeError if they are invalid."""
    found = [match for each in exposed if (match := _EXPOSED.fullmatch(each)) is not None]
    ports = {int(match[1]) for match in found if 1 <= int(match[1]) <= _MOST_PORT}
    return ports.pop() if len(ports) == 1 and len(found) == len(exposed) else None


def _architecture() -> str:
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def _size(folder: Path) -> int:
    """Return the bytes that skopeo has written so far, in blobs and in files that become blobs."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += Path(place, name).stat().st_size
    return size


def _last_lines(output: str) -> str:
    return "; ".join(line.strip() for line in output.splitlines()[-_LAST_LINES:]) or "it printed nothing"


def read_json(path: Path) -> Any:  # noqa: ANN401 - sent by a registry, checked by the caller
    """Return a registry's JSON. Raises ValueError, also if it is large or nested too deeply."""
    with path.open("rb") as file:
        return _parsed(file.read(_MAX_JSON_BYTES))


def _parsed(content: bytes) -> Any:  # noqa: ANN401 - as above
    """Return a registry's JSON. Raises ValueError as `read_json` does."""
    if content.count(b"[") + content.count(b"{") > _MAX_CONTAINERS:
        message = f"more than {_MAX_CONTAINERS} lists and objects"
        raise ValueError(message)
    try:
        return json.loads(content)
    except RecursionError as error:
        message = "nested too deeply"
        raise ValueError(message) from error


def _blob(layout: Path, digest: str) -> Path:
    found = _DIGEST.fullmatch(digest)
    if found is None:
        raise ValueError(digest)
    return layout / "blobs" / "sha256" / found[1]


GB = 2**30
_MB = 10**6
_MAX_FILES = 2_000_000
_MAX_SECONDS = 3600.0
_MEASURE_SECONDS = 1.0


@immutable
class PullOptions:
    """Limits and callbacks of a pull.

    ``max_bytes`` is the most that an image may have, packed or unpacked. ``timeout`` is the most seconds in which a
    registry sends nothing. ``keep_free`` bytes of the host's disk stay free. ``progress`` gets lines about the pull;
    ``check`` is called several times a second, and aborts the pull by raising. A registry may send the pull to public
    addresses and to ``networks``. With a ``login`` no other one of this host is used.
    """

    max_bytes: int
    timeout: float
    keep_free: int = 0
    progress: Callable[[str], None] = lambda _: None
    check: Callable[[], None] = lambda: None
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    login: RegistryAccount | None = None


@dataclass(slots=True)
class PullBounds:
    """The bounds of one pull, which writes only in ``folder``.

    Measuring a tree is slow, reading the free space is not. So the tree is measured only when the disk has lost more
    than the image may have.
    """

    folder: Path
    idmap: IdMap
    options: PullOptions
    _began: float = field(default_factory=time.monotonic)
    _measured_at: float = float("-inf")
    _bytes: int = 0
    _files: int = 0
    _free: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self._free = _free(self.folder)

    def expect(self, packed: int) -> None:
        """Raise ImageTooLarge or InsufficientDisk for an image of ``packed`` bytes, unpacked thrice that."""
        if packed > self.options.max_bytes:
            raise self._too_large(f"{packed / GB:.2f} GB packed")
        lacking = self.options.keep_free + 4 * packed - _free(self.folder)[0]
        if lacking > 0:
            message = f"the host's disk has {lacking / GB:.1f} GB too little space for it"
            raise InsufficientDisk(message, lacking)

    def check(self) -> None:
        """Raise ImageTooLarge, InsufficientDisk, VmError if it takes too long, and as the caller's check."""
        self.options.check()
        now = time.monotonic()
        if now - self._began > _MAX_SECONDS:
            message = f"it took longer than {_MAX_SECONDS:g} s"
            raise VmError(message)
        free_bytes, free_files = _free(self.folder)
        if free_bytes < self.options.keep_free:
            message = f"the host's disk has only {free_bytes / GB:.1f} GB left"
            raise InsufficientDisk(message, self.options.keep_free - free_bytes)
        bytes_, files = self._bytes + self._free[0] - free_bytes, self._files + self._free[1] - free_files
        if bytes_ <= self.options.max_bytes and files <= _MAX_FILES:
            return
        if now - self._measured_at >= _MEASURE_SECONDS:
            self.measure()
            self._measured_at = now

    def measure(self) -> None:
        """Measure the tree. Raises ImageTooLarge if it has more than the image may have."""
        self._free = _free(self.folder)
        self._bytes, self._files = Tree(self.folder, self.idmap.with_caller()).size_and_files()
        if self._bytes > self.options.max_bytes:
            raise self._too_large(f"more than {self.options.max_bytes / GB:g} GB unpacked")
        if self._files > _MAX_FILES:
            message = f"it has more than {_MAX_FILES} files"
            raise ImageTooLarge(message)

    def _too_large(self, size: str) -> ImageTooLarge:
        return ImageTooLarge(f"it has {size}, and images.max_gb allows {self.options.max_bytes / GB:g} GB")


def megabytes(size: int) -> str:
    """Format a size in MB for a progress line."""
    return f"{size / _MB:.1f}" if size < 10 * _MB else f"{size / _MB:.0f}"


def _free(folder: Path) -> tuple[int, int]:
    """Return the free bytes and inodes on the disk of a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize, found.f_favail


def authorization_of(account: RegistryAccount) -> str:
    """Return the form of an account in the file: username and password in base64."""
    return base64.b64encode(f"{account.username}:{account.password}".encode()).decode()


def auth_file(authorizations: Mapping[str, str]) -> bytes:
    """Return the file ``auth.json`` that Skopeo, Buildah and Podman read, of forms of accounts by host."""
    return json.dumps({"auths": {host: {"auth": form} for host, form in authorizations.items()}}).encode()


@contextmanager
def _login_file(account: RegistryAccount | None) -> Iterator[tuple[Mapping[str, str], tuple[int, ...]]]:
    """Yield variables and descriptors by which a program has a login, on no disk; none without one."""
    if account is None:
        yield {}, ()
        return
    with os.fdopen(os.memfd_create("login"), "wb") as file:
        file.write(auth_file({account.host: authorization_of(account)}))
        file.flush()
        yield {"REGISTRY_AUTH_FILE": f"/proc/self/fd/{file.fileno()}"}, (file.fileno(),)
