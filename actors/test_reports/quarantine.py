"""Failures of tests in quarantine: when a job that failed by these alone counts as a soft failure.

The rule is never to make a wrong green: what is not certain is a failure (engine.md, "Quarantine").
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from actors.test_reports.commands import PYTEST_FAILED, NotCertain, reported_tests, void_line
from actors.test_reports.junit import LONGEST_NAME, CaseOutcome, NotReport, TestReport
from actors.test_reports.results import read_artifact
from storage import ExcusedTest, immutable

if TYPE_CHECKING:
    from storage import Build, Job, Lease, QuarantinedTest, Storage

_MOST_LOG_BYTES = 8 << 20


@immutable
class Excuse:
    """The tests in quarantine by whose failures alone a job failed; or ``why_not`` they excuse it."""

    tests: tuple[ExcusedTest, ...] = ()
    why_not: str | None = None

    @property
    def words(self) -> str:
        """The excuse for people, with the first end of a quarantine."""
        count = len(self.tests)
        until = min(each.until for each in self.tests)
        return f"failed, in quarantine until {until:%Y-%m-%d}: {count} test{'' if count == 1 else 's'}"


class _NotExcused(Exception):
    """A job is a failure all the same; the message says why."""


def excuse(storage: Storage, build: Build, job: Job, lease: Lease, exit_code: int, now: datetime) -> Excuse | None:
    """Return whether quarantine excuses a job that failed with ``exit_code``; None if none concerns it.

    The artifacts of the attempt are stored, and its log is on the disk.
    """
    quarantined = {
        (each.suite, each.name): each
        for each in storage.quarantine.in_force(build.pipeline_id)
        if each.step_key in {"", job.step_key} and each.holds_at(now)
    }
    if not quarantined:
        return None
    try:
        report = _report(storage, job, reported_tests(job.command, job.env).report)
        failed = _failed(report)
        others = len(failed) - len(quarantined.keys() & failed)
        if others == len(failed):
            return None
        if others:
            raise _NotExcused(f"{others} of the tests that failed {'is' if others == 1 else 'are'} not in it")
        _require_certain(storage, build, job, report, exit_code, lease.created_at)
    except (NotCertain, _NotExcused) as error:
        return Excuse(why_not=str(error))
    return Excuse(tuple(_excused(job, quarantined[name]) for name in failed))


def _report(storage: Storage, job: Job, path: str) -> TestReport:
    artifact = next((each for each in storage.artifacts.of_job(job.id) if each.path == path), None)
    if artifact is None:
        raise _NotExcused(f"its report {path} is not among its artifacts")
    try:
        report = read_artifact(storage, artifact)
    except NotReport as error:
        raise _NotExcused(f"its report {path} cannot be read: {error}") from None
    if sum(report.counts.values()) != len(report.cases):
        raise _NotExcused(f"its report {path} has more tests than are read")
    return report


def _failed(report: TestReport) -> list[tuple[str, str]]:
    """Return the names of the tests that failed, each once. Raises _NotExcused if one may be cut."""
    failed = dict.fromkeys((each.suite, each.name) for each in report.cases if each.outcome is CaseOutcome.FAILED)
    if any(max(map(len, name)) >= LONGEST_NAME for name in failed):
        raise _NotExcused("the name of a test that failed is too long to be told from others")
    return list(failed)


def _require_certain(
    storage: Storage, build: Build, job: Job, report: TestReport, exit_code: int, since: datetime
) -> None:
    """Raise _NotExcused unless the tests of this very run, and nothing else, made the command fail."""
    if exit_code != PYTEST_FAILED:
        raise _NotExcused(f"its exit code is {exit_code}, and that of pytest for failed tests {PYTEST_FAILED}")
    if not report.began or any((_moment(each) or since) <= since for each in report.began):
        raise _NotExcused("its report does not say that this attempt has written it")
    log = storage.logs.reader(build.uuid, job.uuid)
    output = log.read(0, _MOST_LOG_BYTES + 1)
    if len(output) > _MOST_LOG_BYTES:
        raise _NotExcused(f"its log has more than {_MOST_LOG_BYTES >> 20} MiB, so that it is not looked through")
    line = void_line(output.decode(errors="replace"))
    if line is not None:
        raise _NotExcused(f"pytest has said: {line}")


def _moment(text: str) -> datetime | None:
    """Return the time that a report says; one without a zone is in UTC, as VMs are."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _excused(job: Job, test: QuarantinedTest) -> ExcusedTest:
    return ExcusedTest(job.id, job.build_id, test.suite, test.name, test.expires_at)
