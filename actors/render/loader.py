"""The source and the loader in a render's VM, with the packed DSL (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

import io
import json
import marshal
import zipfile
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.metadata import version
from importlib.resources import as_file, files
from importlib.util import MAGIC_NUMBER, find_spec, source_hash
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Self

from actors import vms
from actors.render import guest
from actors.render.envelope import RenderFailed
from actors.render.guest import WORKSPACE, program, python
from storage import Rendered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.ir import Built
    from actors.settings import RenderSettings


_NAME = "harmont"
_LANGUAGE = "ci_daemon/language.py"
"""The name of the service's own language in the archive, by which pipeline files import it."""

_UNCHECKED = 1
"""The flags of byte code that is valid whatever the time and content of its source."""
_ARCHIVE = "/var/tmp/ci-daemon-source/source.tar.gz"  # noqa: S108 - in the VM, before any user code runs
_UNPACK = f"cd {WORKSPACE} && tar -xzmof {_ARCHIVE} && rm -f {_ARCHIVE}"
_MAX_LOG = 1 << 20
_MAX_STDERR = 1 << 14
_MAX_RESULT = 16 << 20
_MAX_REPORT = 32 << 20
_GRACE = 10.0
_KILLED = 128 + 9
_KILLED_HINT = "it was killed, perhaps because the VM has too little memory"


def dsl_version() -> str:
    """Return the installed version of the DSL."""
    return version(_NAME)


@cache
def packed_dsl() -> bytes:
    """Return both languages as a zip archive of some hundred kB; its modules are not imported.

    Each is there as byte code too, which a Python of this one's version takes: compiling is most of an import. It is
    not compressed, because that would take longer than sending what it saves.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{Path(_LANGUAGE).parent}/__init__.py", b"")
        for name, file in _modules():
            source = file.read_bytes()
            archive.writestr(name, source)
            archive.writestr(f"{name}c", _byte_code(name, file, source))
    return buffer.getvalue()


def _modules() -> Iterator[tuple[str, Path]]:
    """Yield the languages' modules, each with its name in the archive and its installed file."""
    with as_file(files(guest).joinpath("language.py")) as language:
        yield _LANGUAGE, language
    spec = find_spec(_NAME)
    for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
        for file in sorted(folder.rglob("*.py")):
            yield f"{_NAME}/{file.relative_to(folder).as_posix()}", file


def _byte_code(name: str, file: Path, source: bytes) -> bytes:
    """Return the content of a ``.pyc`` that is used without a look at its source (PEP 552).

    It is read from the installed one, if that is up to date.
    """
    code = SourceFileLoader(name, str(file)).get_code(name)
    assert code is not None  # noqa: S101 - a source file has code
    return MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + source_hash(source) + marshal.dumps(_located(code, name))


def _located(code: CodeType, name: str) -> CodeType:
    """Return a module's code with the archive's name in tracebacks, in place of this host's path."""
    constants = (_located(each, name) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=name, co_consts=tuple(constants))


def fetch(connection: vms.Connection, url: str, *, sha256: str, max_bytes: int, timeout: float) -> None:
    """Download an archive in the VM, and check its SHA-256 if one is given (pipeline-ir.md, "Rendering").

    Raises RenderFailed if the archive or its server is at fault, VmError if the VM is.
    """
    wanted = {"url": url, "sha256": sha256, "max_bytes": max_bytes, "into": _ARCHIVE}
    _fetch(connection, "exec " + python("fetch"), json.dumps(wanted), timeout)


def download_archive(connection: vms.Connection, max_bytes: int, timeout: float) -> Iterator[bytes]:
    """Yield the archive that the VM has fetched, so that the build's jobs get their source from it too.

    Raises RenderFailed if it has more than ``max_bytes``, and VmError.
    """
    size = 0
    with connection.stream(vms.in_job(f"exec cat {_ARCHIVE}"), timeout=timeout) as chunks:
        for chunk in chunks:
            size += len(chunk)
            if size > max_bytes:
                raise RenderFailed.exited("source fetch", 1, f"the source has more than {max_bytes} bytes")
            yield chunk


def unpack(connection: vms.Connection, timeout: float) -> None:
    """Unpack the fetched archive in the VM and remove it; the host has checked it. Raises as `fetch` does."""
    _fetch(connection, _UNPACK, "", timeout)


def _fetch(connection: vms.Connection, script: str, stdin: str, timeout: float) -> None:
    try:
        done = connection.run(vms.in_job(script), stdin=stdin.encode(), timeout=timeout)
    except vms.CommandTimeout as error:
        raise RenderFailed.late_fetch(timeout) from error
    if done.exit_code != 0:
        raise RenderFailed.exited("source fetch", done.exit_code, done.stderr.decode(errors="replace"))


class Loader:
    """A loader that starts Python and the DSL in the VM at once, and user code only with `load`.

    Meanwhile the source comes into the VM's workspace.
    """

    def __init__(self, connection: vms.Connection, settings: RenderSettings) -> None:
        self._connection = connection
        self._settings = settings
        dsl = packed_dsl()
        limits = _MAX_RESULT, _MAX_STDERR, _MAX_LOG
        programs = program("fetch_local"), program("load")
        watch = python("watch", *programs, len(dsl), WORKSPACE, settings.timeout, limits)
        self._watch = connection.stream(vms.in_job(f"exec {watch}"), stdin=None, timeout=settings.fetch_timeout)
        self._watch.send(dsl)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()

    @property
    def alive(self) -> bool:
        """True while the connection to the VM is open and the loader runs."""
        return self._connection.alive and not self._watch.ended

    def fetch(self, port: int, path: str, token: str) -> None:
        """Download an archive that the host has checked from the service, and unpack it in the VM's workspace.

        The service's API is at ``port`` of the VM's loopback. Raises RenderFailed and VmError.
        """
        self._watch.renew(self._settings.fetch_timeout)
        self._watch.send(f"fetch {port} {path} {token}\n".encode())
        try:
            fetched = next(iter(self._watch), None)
        except vms.CommandTimeout as error:
            raise RenderFailed.late_fetch(self._settings.fetch_timeout) from error
        if fetched is None:
            reason = self._watch.stderr.decode(errors="replace")
            raise RenderFailed.exited("source fetch", self._watch.exit_code, reason)

    def load(self, organization: str, slug: str, built: Built | None = None) -> Rendered:
        """Load the pipeline files in the VM's workspace and return their envelope, not yet validated.

        The slugs of the organization and the pipeline go into the keys of cached steps, and what is ``built`` to the
        files. Raises RenderFailed, with the output so far as its ``log``, and VmError.
        """
        self._watch.renew(self._settings.timeout + _GRACE)
        self._watch.send(f"load {organization} {slug} {json.dumps({} if built is None else built.facts)}\n".encode())
        late = f"render timed out after {self._settings.timeout:g} s"
        try:
            done = self._watch.complete(_MAX_REPORT)
        except vms.CommandTimeout as error:
            raise RenderFailed(late) from error
        if done.exit_code != 0:
            raise RenderFailed.exited("render", done.exit_code, done.stderr.decode(errors="replace"))
        line, _, heads = done.stdout.partition(b"\n")
        try:
            exit_code, *sizes = map(int, line.split())
            result_size, stderr_size, log_size = sizes
        except ValueError as error:
            raise RenderFailed.exited("render", 0, "it printed no report: something in the VM prevented it") from error
        result, heads = heads[:result_size], heads[result_size:]
        stderr, log = heads[:stderr_size], heads[stderr_size : stderr_size + log_size]
        if exit_code < 0:
            raise RenderFailed(late, log)
        if exit_code != 0:
            reason = stderr.decode(errors="replace") or (_KILLED_HINT if exit_code == _KILLED else "")
            raise RenderFailed.exited("render", exit_code, reason, log)
        if len(result) > _MAX_RESULT:
            raise RenderFailed.exited("render", 0, f"the pipelines come to more than {_MAX_RESULT} bytes", log)
        return Rendered(result.decode(errors="replace"), log)
