"""The loader of pipeline files in a render's VM (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from actors import vms
from actors.render.dsl import packed_dsl
from actors.render.envelope import RenderFailed
from actors.render.guest import WORKSPACE, program, python
from storage import Rendered

if TYPE_CHECKING:
    from actors.render.settings import RenderSettings

_MAX_LOG = 1 << 20
_MAX_STDERR = 1 << 14
_MAX_RESULT = 16 << 20
_MAX_REPORT = 32 << 20
_GRACE = 10.0
_KILLED = 128 + 9
_KILLED_HINT = "it was killed, perhaps because the VM has too little memory"


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

    def load(self, organization: str, slug: str) -> Rendered:
        """Load the pipeline files in the VM's workspace and return their envelope, not yet validated.

        The slugs of the organization and the pipeline go into the keys of cached steps. Raises RenderFailed, with the
        output so far as its ``log``, and VmError.
        """
        self._watch.renew(self._settings.timeout + _GRACE)
        self._watch.send(f"load {organization} {slug}\n".encode())
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
