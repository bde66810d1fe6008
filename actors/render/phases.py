"""The phases of a render in its VM: fetch the source, load the pipeline files (pipeline-ir.md)."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from actors import vms
from actors.render.dsl import packed_dsl
from actors.render.envelope import RenderFailed
from actors.render.guest import program
from storage import Rendered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.render.settings import RenderSettings

__all__ = ["check_archive", "download_archive", "fetch", "load", "unpack"]

_ARCHIVE = "/var/tmp/ci-daemon-source/source.tar.gz"  # noqa: S108 - in the VM, before any user code runs
_WORKSPACE = "/workspace"
_UNPACK = f"cd {_WORKSPACE} && tar -xzmof {_ARCHIVE} && rm -f {_ARCHIVE}"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENV = {"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8"}
_MAX_LOG = 1 << 20
_MAX_STDERR = 1 << 14
_MAX_RESULT = 16 << 20
_MAX_REPORT = 32 << 20
_GRACE = 10.0
_KILLED = 128 + 9
_KILLED_HINT = "it was killed, perhaps because the VM has too little memory"


def fetch(connection: vms.Connection, url: str, *, sha256: str, max_bytes: int, timeout: float) -> None:
    """Download an archive in the VM, and check its SHA-256 if one is given (pipeline-ir.md, "Rendering").

    Raises RenderFailed if the archive or its server is at fault, VmError if the VM is.
    """
    wanted = {"url": url, "sha256": sha256, "max_bytes": max_bytes, "into": _ARCHIVE}
    _fetch(connection, "exec " + _python("fetch"), json.dumps(wanted), timeout)


def fetch_from_service(connection: vms.Connection, port: int, path: str, *, token: str, timeout: float) -> None:
    """Download an archive that the host has checked from the service, and unpack it in the VM's workspace.

    The service's API is at ``port`` of the VM's loopback. Raises as `fetch` does.
    """
    _fetch(connection, f"{_python('fetch_local', port, path, _ARCHIVE)} && {_UNPACK}", f"{token}\n", timeout)


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


def check_archive(archive: Path, manifest: Path, max_bytes: int, sha256: str) -> None:
    """Check an archive on the host and write its manifest, as for jobs. Raises RenderFailed."""
    try:
        vms.write_source_manifest(archive, manifest, max_bytes=max_bytes, sha256=sha256)
    except vms.SourceError as error:
        raise RenderFailed.exited("source fetch", 1, str(error)) from error


def load(connection: vms.Connection, organization: str, slug: str, settings: RenderSettings) -> Rendered:
    """Load the pipeline files in the VM's workspace and return their envelope, not yet validated.

    The slugs of the organization and the pipeline go into the keys of cached steps. Raises RenderFailed, with the
    output so far as its ``log``, and VmError.
    """
    env = {**_ENV, "HM_PIPELINE_ORG": organization, "HM_PIPELINE_SLUG": slug}
    limits = _MAX_RESULT, _MAX_STDERR, _MAX_LOG
    watch = vms.in_job("exec " + _python("watch", program("load"), env, _WORKSPACE, settings.timeout, *limits))
    late = f"render timed out after {settings.timeout:g} s"
    try:
        done = connection.run(watch, stdin=packed_dsl(), timeout=settings.timeout + _GRACE, limit=_MAX_REPORT)
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


def _fetch(connection: vms.Connection, script: str, stdin: str, timeout: float) -> None:
    try:
        done = connection.run(vms.in_job(script), stdin=stdin.encode(), timeout=timeout)
    except vms.CommandTimeout as error:
        raise RenderFailed.exited("source fetch", 124, f"it took longer than {timeout:g} s") from error
    if done.exit_code != 0:
        raise RenderFailed.exited("source fetch", done.exit_code, done.stderr.decode(errors="replace"))


def _python(name: str, *arguments: object) -> str:
    """Return a shell command that runs a program of `guest` with none of the VM's environment."""
    env = " ".join(f"{key}={value}" for key, value in _ENV.items())
    call = f"\nmain({', '.join(map(repr, arguments))})\n" if arguments else ""
    return f"env -i {env} python3 -I -S -c {shlex.quote(program(name) + call)}"
