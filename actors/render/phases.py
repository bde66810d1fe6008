"""The source of a render, from a URL and into its VM (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from actors import vms
from actors.render.envelope import RenderFailed
from actors.render.guest import WORKSPACE, python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from storage.files import Confinement

_ARCHIVE = "/var/tmp/ci-daemon-source/source.tar.gz"  # noqa: S108 - in the VM, before any user code runs
_UNPACK = f"cd {WORKSPACE} && tar -xzmof {_ARCHIVE} && rm -f {_ARCHIVE}"


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


def check_archive(
    confinement: Confinement, organization: str, archive: Path, manifest: Path, max_bytes: int, sha256: str
) -> None:
    """Check an archive on the host and write its manifest, as for jobs. Raises RenderFailed."""
    try:
        vms.write_source_manifest_confined(confinement, organization, archive, manifest, max_bytes, sha256)
    except vms.SourceError as error:
        raise RenderFailed.exited("source fetch", 1, str(error)) from error


def _fetch(connection: vms.Connection, script: str, stdin: str, timeout: float) -> None:
    try:
        done = connection.run(vms.in_job(script), stdin=stdin.encode(), timeout=timeout)
    except vms.CommandTimeout as error:
        raise RenderFailed.late_fetch(timeout) from error
    if done.exit_code != 0:
        raise RenderFailed.exited("source fetch", done.exit_code, done.stderr.decode(errors="replace"))
