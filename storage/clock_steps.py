"""Steps of the host's wall clock, kept over restarts, and what has to follow from them.

Two things must survive a clock that is wrong: waits that are stored as planned instants, which move with the clock, and
old files, which retention leaves alone until the owner has confirmed a large step (engine.md, "Logs").
"""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import peewee

from storage.data_classes import immutable
from storage.database.clock import DAY, SECOND, Segment, boot_id, duration, from_micros
from storage.database.statements import Columns, Query, Write, slot
from storage.errors import DatabaseUnavailable
from storage.models.builds import JobRow
from storage.models.leases import HoldRow
from storage.models.notifications import MailRow, NotificationDeliveryRow
from storage.models.service import ClockRow
from storage.models.source_hosts import BuildOriginRow, DeliveryRow, RepositoryRow
from storage.records.jobs import JobState

if TYPE_CHECKING:
    from datetime import datetime

    from storage.database.clock import Timeline
    from storage.database.connection import Database

_log = logging.getLogger(__name__)

_ONLY = 1

CONFIRM = (
    "the clock moved much further than the service was away, so that everything may look old: check the host's time,"
    " then let retention go on with `ci-daemon retention confirm`"
)

_LARGE_STEP = 10 * 60 * SECOND
"""Retention, which counts in days, ignores smaller steps, such as a correction at boot."""

_LONGEST_ABSENCE = 3 * DAY
"""The longest time that a host may have been off before its last boot: a long weekend."""

_NOTED_EVERY = 60 * SECOND

_WAITS = (
    (JobRow.not_before, (JobRow.state == JobState.SCHEDULED, JobRow.not_before.is_null(is_null=False))),
    (HoldRow.until, (HoldRow.finished_at.is_null(),)),
    (MailRow.next_attempt_at, ()),
    (NotificationDeliveryRow.next_attempt_at, ()),
    (DeliveryRow.retry_at, (DeliveryRow.processed_at.is_null(),)),
    (BuildOriginRow.report_at, ()),
    (RepositoryRow.next_check_at, ()),
)
"""Pauses that are stored as the instant of their end, which moves with the clock, and their rows.

Not among them are facts of the calendar: schedules, and the expiry of tokens, links, coupons and invitations.
"""


def _moved_with(end: peewee.Field[Any]) -> tuple[peewee.Field[Any], ...]:
    """Return a pause's end and what moves with it: a hold's begin, the queueing of a job."""
    return (end, *{HoldRow.until: (HoldRow.started_at,), JobRow.not_before: (JobRow.queued_at,)}.get(end, ()))


def _move_of(end: peewee.Field[Any], of_rows: tuple[peewee.Expression, ...]) -> peewee.Update:
    """Return the statement that moves a pause's end."""
    moved: dict[peewee.Field[Any], peewee.Expression] = {
        each: peewee.Expression(each, "+", slot("by")) for each in _moved_with(end)
    }
    update: peewee.Update = end.model.update(moved)
    return update.where(end > slot("now"), *of_rows)


def step_text(seconds: float) -> str:
    """Return what happened to a clock, such as "the clock was set ahead by 3 d 0 h"."""
    return f"the clock was set {'ahead' if seconds > 0 else 'back'} by {duration(abs(seconds))}"


@immutable
class ClockJump:
    """A large step of the wall clock that the owner has not confirmed.

    ``by`` is how much further it moved than the service was away; negative if it was set back.
    """

    at: datetime
    by: timedelta


@immutable
class _Known:
    boot: str
    seen_at: int
    seen_uptime: int
    segments: str
    trusted: int
    set_at: int | None
    set_by: int | None


class ClockSteps:
    """The steps of the wall clock since the service's first start. Safe in any thread.

    Within a boot, steps are exact, also those while no service ran. After a reboot nothing tells for how long the host
    was off: the wall clock is believed up to three days.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        known: Columns[_Known] = Columns.of(_Known, ClockRow)
        self._get = Query(database, lambda: ClockRow.select(*known.selected).where(ClockRow.id == _ONLY), known)
        fields = ("boot", "seen_at", "seen_uptime", "segments", "trusted", "set_at", "set_by")
        self._set = Write(
            database,
            lambda: ClockRow.insert(
                {ClockRow.id: _ONLY, **{getattr(ClockRow, name): slot(name) for name in fields}}
            ).on_conflict_replace(),
        )
        self._moves = [Write(database, partial(_move_of, end, of_rows)) for end, of_rows in _WAITS]
        self._boot = boot_id()
        self._trusted = self._timeline.segments[-1].offset
        self._jump: tuple[int, int] | None = None
        self._followed = self._timeline.segments
        self._noted_at: int | None = None

    @property
    def _timeline(self) -> Timeline:
        return self._database.timeline

    @property
    def jump(self) -> ClockJump | None:
        """The large step that the owner has not confirmed; None if there is none."""
        wall, uptime = self._timeline.look()
        self._judge(wall, uptime)
        if self._jump is not None:
            self._take_confirmation(wall, uptime)
        return (
            None if self._jump is None else ClockJump(from_micros(self._jump[0]), timedelta(microseconds=self._jump[1]))
        )

    def read(self) -> None:
        """Take over what the service that ran last knew, and compare the clocks with it. Writes nothing."""
        known = self._get.one()
        if known is None:
            return
        segments = tuple(Segment(*each) for each in json.loads(known.segments))
        wall, uptime = self._timeline.look()
        by = 0
        if known.boot != self._boot:
            off = wall - known.seen_at - uptime
            plausible = -_LARGE_STEP < off <= _LONGEST_ABSENCE
            by = segments[-1].offset - (wall - uptime) if plausible else -known.seen_uptime
        segments = tuple(each.moved(by) for each in segments)
        self._trusted = known.trusted - by
        self._jump = None if known.set_at is None or known.set_by is None else (known.set_at, known.set_by)
        self._followed = segments
        self._timeline.replace(segments)

    def resume(self) -> None:
        """Begin as the service's successor: `read`, then `follow`."""
        self.read()
        self.follow()

    def follow(self) -> None:
        """Move planned instants with a clock that was set, and note the clocks, at least once a minute.

        The service calls it each second, and before it decides whether a wait is over.
        """
        wall, uptime = self._timeline.look()
        had_jump = self._jump is not None
        self._judge(wall, uptime)
        if had_jump:
            self._take_confirmation(wall, uptime)
        segments, offset = self._timeline.segments, self._followed[-1].offset
        by = segments[-1].offset - offset
        new_jump = self._jump is not None and not had_jump
        if not by and not new_jump and self._noted_at is not None and uptime - self._noted_at < _NOTED_EVERY:
            return
        try:
            with self._database.write():
                if by:
                    for move in self._moves:
                        move.run(by=by, now=uptime + offset)
                self._note(wall, uptime)
        except DatabaseUnavailable:
            return  # as while the disk is full; the next call does it
        self._followed = segments
        if by:
            _log.warning("%s", step_text(by / SECOND))
        if self._jump is not None and (new_jump or self._noted_at is None):
            _log.warning("retention removes nothing: %s", CONFIRM)
        self._noted_at = uptime

    def confirm(self) -> ClockJump | None:
        """Let retention trust the clock as it is; return the step that is confirmed, if there is one."""
        with self._database.write():
            jump = self.jump
            wall, uptime = self._timeline.look()
            self._jump, self._trusted = None, wall - uptime
            self._note(wall, uptime)
        return jump

    def _take_confirmation(self, wall: int, uptime: int) -> None:
        """Notice that the owner has confirmed the step, in another process."""
        known = self._get.one()
        if known is not None and known.boot == self._boot and known.set_at is None and known.trusted != self._trusted:
            self._jump, self._trusted = None, known.trusted
            self._judge(wall, uptime)

    def _judge(self, wall: int, uptime: int) -> None:
        by = wall - uptime - self._trusted
        if self._jump is None and abs(by) >= _LARGE_STEP:
            self._jump = wall, by

    def _note(self, wall: int, uptime: int) -> None:
        at, by = self._jump or (None, None)
        self._set.run(
            boot=self._boot,
            seen_at=wall,
            seen_uptime=uptime,
            segments=json.dumps([[each.since, each.offset] for each in self._timeline.segments]),
            trusted=self._trusted,
            set_at=at,
            set_by=by,
        )
