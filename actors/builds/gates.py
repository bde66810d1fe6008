"""Gates of jobs that deploy: who may answer, what follows, and whose time runs (engine.md, "Gates")."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from actors.builds.outcome import JobFailure
from actors.builds.states import JobEvent
from storage import BuildEvent, Environment, Gate, GateState, JobErrorCode, Role, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from datetime import datetime

    from actors.settings import LiveSettings
    from storage import Build, Job, Storage

_MOST_MAILS = 50

Span = tuple[float, float]
"""Seconds from the start of the build, from and until."""


def opens_by_itself(environment: Environment, *, from_fork: bool) -> bool:
    """Tell whether a gate needs no answer.

    A fork, whose owner says what runs, always needs that of a member.
    """
    return not environment.approvers and not from_fork


def refusal(environment: Environment, email: str, role: Role, people: Collection[str]) -> str | None:
    """Return why a member may not answer a gate; None if they may.

    ``people`` are the addresses of the build's people.
    """
    if environment.not_author and email.lower() in {each.lower() for each in people}:
        return f'the environment "{environment.name}" wants an answer of somebody else than the people of the build'
    if not environment.approvers or any(_is_approver(each, email, role) for each in environment.approvers):
        return None
    return f'the environment "{environment.name}" is approved by {approvers_of(environment)}'


def people_of(storage: Storage, build: Build) -> frozenset[str]:
    """Return the addresses of the people of a build, and of the builds that it repeats."""
    found = storage.build_history.addresses(build.id)
    number = build.rebuild_of
    while number is not None:
        before = storage.builds.by_number(build.pipeline_id, number)
        if before is None:
            break
        found |= storage.build_history.addresses(before.id)
        number = before.rebuild_of
    return found


def approvers_of(environment: Environment) -> str:
    """Return the approvers of an environment, for people."""
    shown = [f"the role {each}" if each in set(Role) else each for each in environment.approvers]
    return " or ".join(shown) if shown else "any member"


def _is_approver(approver: str, email: str, role: Role) -> bool:
    return role.covers(Role(approver)) if approver in set(Role) else approver.lower() == email.lower()


def gate_reason(storage: Storage, job: Job, gate: Gate | None) -> str | None:
    """Return why a pending job waits at its gate; None if it does not."""
    if job.environment is None or gate is None or gate.state is not GateState.WAITING:
        return None
    environment = storage.environments.named(job.organization_id, job.environment)
    asked = "an environment that was deleted" if environment is None else approvers_of(environment)
    until = f"{gate.expires_at:%Y-%m-%d %H:%M} UTC"
    return f'waiting for approval to deploy to "{job.environment}", until {until}, by {asked}'


def seconds_in_time(until: float, held: Iterable[Span], busy: Iterable[Span]) -> float:
    """Return the seconds of a build that count: those in which no job is held, or one is busy."""
    changes = [
        (min(max(moment, 0.0), until), holds * step, works * step)
        for spans, holds, works in ((held, 1, 0), (busy, 0, 1))
        for span in spans
        for moment, step in zip(span, (1, -1), strict=True)
    ]
    counted, since, now_held, now_busy = 0.0, 0.0, 0, 0
    for moment, held_by, busy_by in [*sorted(changes), (until, 0, 0)]:
        if now_busy or not now_held:
            counted += moment - since
        since, now_held, now_busy = moment, now_held + held_by, now_busy + busy_by
    return counted


def seconds_run(storage: Storage, build: Build, until: datetime | None = None) -> float:
    """Return the seconds of its time that a build has used by a moment, now if none is given.

    A job is held from the question of its gate until it is scheduled, and busy from then on: both are on record, so
    that a restart changes nothing.
    """
    timeline, started_at = storage.timeline, build.started_at
    if started_at is None:
        return 0.0
    ran = timeline.seconds_since(started_at) if until is None else timeline.seconds_between(started_at, until)
    gates = storage.gates.of_build(build.id)
    if not gates:
        return ran

    def at(instant: datetime | None) -> float:
        return inf if instant is None else timeline.seconds_between(started_at, instant)

    jobs = storage.jobs.of_build(build.id)
    held = [(at(gates[job.id].asked_at), at(job.scheduled_at or job.finished_at)) for job in jobs if job.id in gates]
    busy = [(at(job.scheduled_at), at(job.finished_at)) for job in jobs if job.scheduled_at is not None]
    return seconds_in_time(ran, held, busy)


class GateMails:
    """Tells of a gate that waits: the approvers by mail, if there is a mail server, and channels of Slack.

    Not for forks, whose names are a stranger's.
    """

    def __init__(self, storage: Storage, live_settings: LiveSettings) -> None:
        self._storage = storage
        self._live_settings = live_settings

    def prepared(self, build: Build, job: Job, environment: Environment) -> Callable[[], None]:
        """Return what writes mails and messages, in the caller's transaction; their texts are made here."""
        if build.from_fork:
            return lambda: None
        write_mails, write_messages = self._mails(build, job, environment), self._messages(build, job, environment)

        def write() -> None:
            write_mails()
            write_messages()

        return write

    def _messages(self, build: Build, job: Job, environment: Environment) -> Callable[[], None]:
        from actors.notifications.messages import slack_gate  # noqa: PLC0415 - few builds have gates

        event, storage = BuildEvent.GATE_WAITING, self._storage
        page = f"{self._live_settings.now.pages.page_of(build)}/jobs/{job.uuid}"
        body = slack_gate(build, job.step_key, environment.name, duration(environment.gate_seconds), page)

        def write() -> None:
            for each in storage.notifications.enabled(build.pipeline_id):
                if event in each.events:
                    storage.notification_deliveries.add(each.id, event, build.number, body)

        return write

    def _mails(self, build: Build, job: Job, environment: Environment) -> Callable[[], None]:
        settings, storage = self._live_settings.now, self._storage
        if not settings.mail.host:
            return lambda: None
        from actors.mail import Mails  # noqa: PLC0415 - few builds have gates
        from actors.notifications.messages import subject_line  # noqa: PLC0415 - the same

        mails, people = Mails(storage, settings.base_url, settings.pages), people_of(storage, build)
        approvers = [
            each.email
            for each in storage.members.all(build.organization_id)
            if refusal(environment, each.email, each.role, people) is None and not storage.mail_opt_outs.has(each.email)
        ]
        headline = f'{build.name}: "{job.step_key}" waits for your approval to deploy to {environment.name}'
        within, link = duration(environment.gate_seconds), settings.pages.page_of(build)
        letters = [
            (to, mails.gate_letter(to, headline, subject_line(build), within, link)) for to in approvers[:_MOST_MAILS]
        ]

        def write() -> None:
            for to, letter in letters:
                mails.gate(to, letter)

        return write


class GateKeeper:
    """Asks the gates of a build's jobs, and tells what follows from the answers.

    For the supervisor's thread only. ``await_answer`` is called with the seconds until a gate that waits is to be
    looked at again.
    """

    def __init__(self, build: Build, storage: Storage, mails: GateMails, await_answer: Callable[[float], None]) -> None:
        self._build = build
        self._storage = storage
        self._mails = mails
        self._await_answer = await_answer

    def event(self, job: Job) -> tuple[JobEvent | None, JobFailure | None]:
        """Return the event of a job that is ready but for its gate, with the reason of a refusal; None yet."""
        if job.environment is None:
            return JobEvent.READY, None
        gate = self._gate(job, job.environment)
        if gate is None:
            why = f'there is no environment "{job.environment}": an admin of the organization makes it'
            return JobEvent.REFUSED, JobFailure(JobErrorCode.ENVIRONMENT_NOT_FOUND, why)
        match gate.state:
            case GateState.APPROVED:
                return JobEvent.READY, None
            case GateState.REJECTED:
                why = f"{gate.decided_by} rejected it{f': {gate.reason}' if gate.reason else ''}"
                return JobEvent.REFUSED, JobFailure(JobErrorCode.GATE_REJECTED, why)
            case GateState.EXPIRED:
                why = f'nobody approved it for "{job.environment}" within {gate.seconds} s'
                return JobEvent.REFUSED, JobFailure(JobErrorCode.GATE_EXPIRED, why)
            case GateState.WAITING:
                self._await_answer(self._storage.gates.seconds_left(gate))
                return None, None

    def _gate(self, job: Job, name: str) -> Gate | None:
        """Return the gate as it is now, asked if it is new; None without its environment."""
        gates = self._storage.gates
        gate = gates.of_job(job.id)
        if gate is None:
            environment = self._storage.environments.named(self._build.organization_id, name)
            if environment is None:
                return None
            if opens_by_itself(environment, from_fork=self._build.from_fork):
                return gates.ask(job.id, environment.gate_seconds, opened="the environment needs no approval")
            write = self._mails.prepared(self._build, job, environment)
            with self._storage.transaction():
                gate = gates.ask(job.id, environment.gate_seconds)
                write()
        return gates.expire(gate)
