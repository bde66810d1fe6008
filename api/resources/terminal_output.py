"""The output of a terminal as Server-Sent Events (engine.md, "Kept disks")."""

from __future__ import annotations

import base64
import json
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from api.errors.catalog import ApiError
from api.http.slots import LogReader, RequestWait, StreamBody
from api.openapi.operations import Answer, Parameter, operation
from api.operations.terminals import get_terminal
from storage import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import falcon

    from actors.forks import Shown
    from api.doors.http import HttpDoor
    from api.engine import TerminalLook
    from api.http.slots import StreamSlots
    from api.operations.service import Service
    from storage import ForkTerminal

_HEARTBEAT_SECONDS = 15.0
_LOOK_SECONDS = 0.5
_BYTES_PER_SECOND = 2 << 20
"""The most output that a reader gets; a program that prints more waits."""

_RETRY_SECONDS = "5"
_NUMBER = pattern(r"[0-9]{1,18}", re.ASCII)
_RETRY = b"retry: 1000\n\n"
_HEARTBEAT = b": still here\n\n"
_RESTARTING = b": the service restarts\n\n"

_EVENTS = Answer(
    200,
    "Events: `begin` with the number of bytes that were `typed`; `output`, whose data is Base64 and whose id is the"
    " number of its last byte; `lost` with the number of bytes `left_out`, which are not kept any more; `exit` with the"
    " `exit_code` of the shell; `end` with the reason `why`; and `replaced` when a later request looks instead.",
    media_type="text/event-stream",
)
_PARAMETERS = (
    Parameter(
        "Last-Event-ID",
        "Go on after this byte; without it the stream starts with the last 256 KiB.",
        {"type": "string", "examples": ["0"]},
        "header",
    ),
    Parameter(
        "last_event_id",
        "The same as `Last-Event-ID`, for clients that cannot set headers.",
        {"type": "string", "examples": ["0"]},
    ),
)
_ERRORS = (
    "organization_not_found",
    "pipeline_not_found",
    "build_not_found",
    "job_not_found",
    "terminal_not_found",
    "insufficient_org_role",
    "too_many_streams",
)


class TerminalOutputResource:
    """``…/terminals/{terminal}/output``, for the callers of a door.

    Each stream holds a thread and a slot of those for readers. While it lasts, it looks each half second whether its
    own caller still may read.
    """

    def __init__(self, service: Service, door: HttpDoor, slots: StreamSlots) -> None:
        self._service = service
        self._door = door
        self._slots = slots

    @operation("streamTerminal", _EVENTS, errors=_ERRORS, parameters=_PARAMETERS)
    def on_get(self, req: falcon.Request, resp: falcon.Response, **names: str) -> None:
        """Follow what a terminal shows as Server-Sent Events."""
        check = partial(self._door.perform, req, resp, get_terminal, names, dict)
        check()
        terminal = self._service.storage.terminals.by_uuid(names["terminal"])
        if terminal is None:
            raise ApiError.not_found("terminal", names["terminal"])
        slot = self._slots.acquire_for_reader(LogReader(req.context.caller.user.uuid, public=False))
        if slot is None:
            raise ApiError(
                "too_many_streams",
                "too many terminals and logs are looked at, by you or by all; try again soon",
                headers={"Retry-After": _RETRY_SECONDS},
            )
        given = req.get_header("Last-Event-ID") or req.get_param("last_event_id") or ""
        number = int(given) if _NUMBER.fullmatch(given) else 0
        resp.content_type = "text/event-stream; charset=utf-8"
        resp.cache_control = ["no-store"]
        resp.set_header("X-Accel-Buffering", "no")
        waiting = RequestWait.of(req, self._service.clock, self._slots)
        resp.stream = StreamBody(self._events(terminal, number, waiting, check), slot)

    def _events(
        self, terminal: ForkTerminal, number: int, waiting: RequestWait, check: Callable[[], object]
    ) -> Generator[bytes]:
        """Yield the events. Runs, and waits, in the request's thread.

        Where the connection to the VM is lost, the stream ends without a word: the client asks again.
        """
        from actors import forks, vms  # noqa: PLC0415 - what makes VMs, which few streams need

        terminals = self._service.engine.terminals
        yield _RETRY
        try:
            if waiting.over:
                return
            look = terminals.look(terminal, number)
            try:
                yield _event("begin", {"typed": look.typed})
                yield from self._of_look(terminal, look, waiting, check)
            finally:
                look.close()
        except forks.TerminalGone as error:
            yield _event("end", {"why": str(error)})
        except ApiError as error:
            yield _event("end", {"why": error.message})
        except vms.VmError:
            if (why := terminals.gone(terminal.uuid)) is not None:
                yield _event("end", {"why": why})

    def _of_look(
        self, terminal: ForkTerminal, look: TerminalLook, waiting: RequestWait, check: Callable[[], object]
    ) -> Generator[bytes]:
        clock = self._service.clock
        heartbeat_at, check_at = clock.monotonic() + _HEARTBEAT_SECONDS, clock.monotonic() + _LOOK_SECONDS
        while not waiting.over:
            if look.replaced:
                yield _event("replaced", {})
                return
            shown = look.part(_LOOK_SECONDS)
            now = clock.monotonic()
            if now >= check_at:
                check()
                check_at = now + _LOOK_SECONDS
            if shown is not None:
                yield _of(shown)
                heartbeat_at = now + _HEARTBEAT_SECONDS
                if shown.exit_code is not None:
                    why = f"its shell has ended with exit code {shown.exit_code}"
                    self._service.engine.terminals.close(terminal, why)
                    yield _event("exit", {"exit_code": shown.exit_code})
                    return
                time.sleep(len(shown.data) / _BYTES_PER_SECOND)
            elif now >= heartbeat_at:
                yield _HEARTBEAT
                heartbeat_at = now + _HEARTBEAT_SECONDS
        yield _RESTARTING


def _of(shown: Shown) -> bytes:
    lost = _event("lost", {"left_out": shown.left_out}, shown.end) if shown.left_out else b""
    if not shown.data:
        return lost
    return lost + b"event: output\nid: %d\ndata: %s\n\n" % (shown.end, base64.b64encode(shown.data))


def _event(name: str, data: dict[str, Any], number: int | None = None) -> bytes:
    numbered = "" if number is None else f"id: {number}\n"
    return f"event: {name}\n{numbered}data: {json.dumps(data)}\n\n".encode()
