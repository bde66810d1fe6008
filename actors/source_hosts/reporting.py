"""The status reporter: tells source hosts the states of builds, and what is skipped for a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from actors.messages import PollStorage, StatusReporterMessage
from actors.source_hosts.host import CommitReport, HostError, PreviewLink, Report, ReportState, Skip
from actors.supervision import Supervised
from storage import BuildState, OriginEvent, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from actors.parts import Parts
    from actors.source_hosts.host import SourceHost
    from storage import Build, BuildOrigin, CommitCheck, Repository, SkippedPipeline

_AT_ONCE = 2
_LISTED = 200
_FIRST_PAUSE = 5.0
_LONGEST_PAUSE = 900.0
_KEPT_COVERAGES = 1_000
_MOST_FAILURES = 200
"""About two days of attempts."""


@immutable
class _ReportStates:
    """Work on a worker thread: report the builds of one repository."""

    repository_id: int

    def __str__(self) -> str:
        return f"report the builds of repository {self.repository_id}"


@immutable
class _Reported:
    """Worker: the reports of this repository have ended."""

    repository_id: int


class StatusReporter(Supervised[StatusReporterMessage | _Reported, _ReportStates]):
    """Compares the builds that hosts show with their states, and reports what differs.

    Nothing on a build's way waits for a report. Reports of one repository come one after the other, so that an older
    state never replaces a newer one; two repositories are served at once.
    """

    def __init__(self, parts: Parts, *, hosts: Mapping[str, SourceHost]) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry)
        self._storage = parts.storage
        self._live_settings = parts.live_settings
        self._hosts = hosts
        self._reporting: set[int] = set()
        self._left_out = False
        self._coverages: dict[tuple[int, datetime | None], str] = {}

    def handle(self, message: StatusReporterMessage | _Reported) -> None:
        """Start the reports that are due."""
        match message:
            case PollStorage():
                self._poll()
            case _Reported(repository_id):
                self._reporting.discard(repository_id)
                if self._left_out:
                    self._poll()
            case _:
                assert_never(message)

    def on_task_error(self, task: _ReportStates, error: Exception) -> None:
        """Log the error; the builds are compared again at the next poll."""
        super().on_task_error(task, error)
        self._reporting.discard(task.repository_id)

    def _poll(self) -> None:
        """Start the reports that are due, but not two of a repository at once; the others follow."""
        self._left_out = False
        due: dict[int, list[tuple[BuildOrigin, Build]]] = {}
        skipped: dict[int, list[SkippedPipeline]] = {}
        for each in self._storage.skipped_pipelines.due(_LISTED):
            skipped.setdefault(each.repository_id, []).append(each)
        for origin in self._storage.build_origins.due(_LISTED):
            build = self._storage.builds.get(origin.build_id)
            if origin.repository_id is None or build is None:
                self._storage.build_origins.report_failed(origin.build_id, "the repository is gone", None)
            else:
                due.setdefault(origin.repository_id, []).append((origin, build))
        left = (each.repository_id for each in self._storage.commit_checks.due(_LISTED))
        for repository_id in dict.fromkeys((*due, *skipped, *left)):
            if len(self._reporting) < _AT_ONCE and repository_id not in self._reporting:
                self._reporting.add(repository_id)
                self._start(repository_id, due.get(repository_id, []), skipped.get(repository_id, []))
            else:
                self._left_out = True

    def _start(
        self, repository_id: int, differing: list[tuple[BuildOrigin, Build]], skipped: list[SkippedPipeline]
    ) -> None:
        def run() -> _Reported:
            repository = self._storage.repositories.get(repository_id)
            commits = {build.commit for _, build in differing} | {each.commit for each in skipped}
            for commit in filter(None, commits):
                if repository is not None:
                    self._storage.commit_checks.look(repository_id, commit)
            for origin, build in differing:
                if repository is None:
                    self._storage.build_origins.report_failed(origin.build_id, "the repository is gone", None)
                    continue
                report = self._report_of(origin, build)
                try:
                    report_id = self._report(repository, report)
                except HostError as error:
                    self.log.warning("%s is not reported: %s", report.url, error)
                    self._storage.build_origins.report_failed(
                        origin.build_id, str(error), _pause(origin.report_failures, error)
                    )
                    break  # the others would fail in the same way
                self._reported(report, report_id)
            else:
                if repository is not None:
                    for each in skipped:
                        self._report_skip(repository, each)
                    for check in self._storage.commit_checks.due_of(repository_id):
                        self._report_commit(repository, check)
            return _Reported(repository_id)

        self.work(_ReportStates(repository_id), run)

    def _report_skip(self, repository: Repository, skipped: SkippedPipeline) -> None:
        """Report that a pipeline is skipped for a commit, unless the commit has a build of it after all."""
        skip = self._skip(repository, skipped)
        if skip is not None and not self._storage.skipped_pipelines.is_built(skipped):
            self._storage.await_disk()
            try:
                self._hosts[repository.provider].report_skip(repository, skip)
            except HostError as error:
                self.log.warning("%s is not reported as skipped: %s", skip.url, error)
                pause = _pause(skipped.report_failures, error)
                self._storage.skipped_pipelines.report_failed(skipped, str(error), pause)
                return
        self._storage.skipped_pipelines.reported(skipped)

    def _report_commit(self, repository: Repository, check: CommitCheck) -> None:
        """Report the state of all pipelines of a commit, unless its host shows that already."""
        report = self._commit_report(repository, check.commit)
        told, report_id = (check.state or "", check.description), check.report_id
        if report is not None and told != (report.state, report.description):
            self._storage.await_disk()
            try:
                report_id = self._hosts[repository.provider].report_commit(repository, report, check)
            except HostError as error:
                self.log.warning("the check of commit %s is not reported: %s", check.commit, error)
                self._storage.commit_checks.report_failed(check, str(error), _pause(check.report_failures, error))
                return
            told = report.state, report.description
        self._storage.commit_checks.reported(check, told[0] or None, told[1], report_id)

    def _commit_report(self, repository: Repository, commit: str) -> CommitReport | None:
        """Return the report of a commit's pipelines, whose states are read just now."""
        known = self._storage.build_origins
        origins = known.counting_of_commit(repository.id, commit) or [
            each for each in known.latest_of_commit(repository.id, commit) if each.event is OriginEvent.MANUAL
        ]
        found = ((origin, self._storage.builds.get(origin.build_id)) for origin in origins)
        builds = [
            Report(report_state(build.state), build, origin, self._url(build), coverage=self._more(build))
            for origin, build in found
            if build is not None
        ]
        skipped = self._storage.skipped_pipelines.of_commit(repository.id, commit)
        skips = [skip for each in skipped if (skip := self._skip(repository, each)) is not None]
        return CommitReport.of(commit, builds, skips)

    def _skip(self, repository: Repository, skipped: SkippedPipeline) -> Skip | None:
        pipeline = self._storage.pipelines.by_id(skipped.pipeline_id)
        organization = self._storage.organizations.by_id(repository.organization_id)
        if pipeline is None or organization is None:
            return None
        url = self._live_settings.now.pages.page_of_pipeline(organization.slug, pipeline)
        return Skip(pipeline.slug, skipped.commit, skipped.reason, url)

    def _report(self, repository: Repository, report: Report) -> str | None:
        """Report a build, unless its host shows two states as one; return the host's name for the report."""
        before = report.origin.reported
        if before is not None and report_state(before) is report.state:
            return report.origin.report_id
        self._storage.await_disk()
        return self._hosts[repository.provider].report(repository, report)

    def _reported(self, report: Report, report_id: str | None) -> None:
        """Note that a host was told of a build; amend what changed while the report was on its way."""
        build = report.build
        self._storage.build_origins.reported(build.id, build.state, report_id)
        if (self._more(build), self._previews(build)) != (report.coverage, report.previews):
            self._storage.build_origins.amend(build.id)

    def _report_of(self, origin: BuildOrigin, build: Build) -> Report:
        """Return the report of a build with those of others of its commit, whose states are read just now."""
        latest = self._storage.build_origins.latest_of_pipeline(origin, build)
        others = []
        for other in latest:
            found = self._storage.builds.get(other.build_id)
            if found is not None and other.build_id != build.id:
                state, previews = report_state(found.state), self._previews(found)
                others.append(Report(state, found, other, self._url(found), previews=previews))
        outdated = all(each.build_id != build.id for each in latest)
        state, coverage = report_state(build.state), self._more(build)
        return Report(state, build, origin, self._url(build), tuple(others), outdated, coverage, self._previews(build))

    def _more(self, build: Build) -> str:
        """Return what to say of a build beside its state: what broke it, or is excused, and its coverage."""
        search = self._storage.culprits.of_build(build.id) if build.state is BuildState.FAILED else None
        told = "" if search is None else search.in_words, self._quarantined(build), self._coverage(build)
        return ", ".join(filter(None, told))

    def _previews(self, build: Build) -> tuple[PreviewLink, ...]:
        """Return the previews of a build's jobs; none if the service has no address for them any more."""
        hosts, links = self._live_settings.now.preview_hosts, []
        for each in () if hosts is None else self._storage.previews.of_build(build.id):
            job = self._storage.jobs.get(each.job_id)
            if hosts is not None and job is not None:
                links.append(PreviewLink(job.name, hosts.address(each.uuid), each.why_ended))
        return tuple(links)

    def _quarantined(self, build: Build) -> str:
        """Return how many failures of a build that has ended do not count, in words."""
        count = self._storage.quarantine.count_excused(build.id) if build.state.terminal else 0
        return f"{count} failed test{'' if count == 1 else 's'} in quarantine" if count else ""

    def _coverage(self, build: Build) -> str:
        """Return the coverage of a build that has ended, in words: read once, as its reports do not change."""
        if not build.state.terminal:
            return ""
        key = build.id, build.finished_at
        found = self._coverages.get(key)
        if found is None:
            from actors.coverage import coverage_in_words  # noqa: PLC0415 - few builds have reports

            found = self._coverages[key] = coverage_in_words(self._storage, build)
            while len(self._coverages) > _KEPT_COVERAGES:
                self._coverages.pop(next(iter(self._coverages)), None)
        return found

    def _url(self, build: Build) -> str:
        return self._live_settings.now.pages.page_of(build)


def report_state(state: BuildState) -> ReportState:
    """Return the state of a build as its host is told."""
    match state:
        case BuildState.SCHEDULED:
            return ReportState.WAITING
        case BuildState.RUNNING | BuildState.FAILING | BuildState.CANCELING:
            return ReportState.RUNNING
        case BuildState.PASSED:
            return ReportState.PASSED
        case BuildState.FAILED:
            return ReportState.FAILED
        case BuildState.CANCELED:
            return ReportState.CANCELED
        case _:
            assert_never(state)


def _pause(failures: int, error: HostError) -> float | None:
    """Return the seconds until the next attempt after some failures; None if there is none."""
    if error.final or failures + 1 >= _MOST_FAILURES:
        return None
    if error.retry_after is not None:
        return max(error.retry_after, _FIRST_PAUSE)
    return min(_FIRST_PAUSE * 2.0**failures, _LONGEST_PAUSE)
