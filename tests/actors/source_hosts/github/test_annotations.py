"""Annotations: failed tests at their lines, at most fifty, once, and without the secrets of the build."""

from __future__ import annotations

from dataclasses import replace
from xml.sax.saxutils import escape

import pytest

from actors.source_hosts.host import Report, ReportState
from actors.source_hosts.reporting import report_state
from storage import (
    Annotation,
    AnnotationLevel,
    BuildState,
    Job,
    JobState,
    JobSummary,
    Masker,
    NewBuild,
    NewOrigin,
    NewPipeline,
    OriginEvent,
    SecretScope,
)
from tests.actors.source_hosts.github.conftest import App
from tests.clock import ManualClock
from tests.e2e.sources import archive
from tests.records import finish, new_job, started

SECRET = "hunter2-and-a-half"
FAILURE = "tests/test_a.py:12: AssertionError"


def report_of(*failures: str, passed: int = 0) -> bytes:
    cases = [
        f'<testcase classname="tests.test_a" name="t{number}"><failure>{escape(text)}</failure></testcase>'
        for number, text in enumerate(failures)
    ]
    cases += ['<testcase name="good"/>'] * passed
    return f"<testsuite>{''.join(cases)}</testsuite>".encode()


class Suite:
    """A build with a secret, whose check run is in progress."""

    def __init__(self, app: App, clock: ManualClock) -> None:
        app.bound()
        self.app, self.storage, self.repository = app, app.storage, app.repositories()[0]
        pipeline = self.storage.pipelines.create(app.organization_id, NewPipeline("web", "Web", "acme/web", "main"))
        self.scope = SecretScope(app.organization_id)
        self.storage.secrets.put(self.scope, "TOKEN", SECRET)
        clock.advance(1)
        with self.storage.transaction():
            source = archive({"tests/test_a.py": "", "README.md": ""})
            new = NewBuild("main", "c" * 40, source_archive=source)
            build = self.storage.builds.create(pipeline, new, [new_job("test", secrets=("TOKEN",))])
            origin = NewOrigin(self.repository.id, OriginEvent.PUSH, "refs/heads/main")
            self.storage.build_origins.record(build.id, origin, reports=True)
        found = self.storage.build_origins.get(build.id)
        assert found is not None
        self.report = Report(ReportState.RUNNING, build, found, "https://ci.example.org/1")
        self.show(BuildState.RUNNING)

    @property
    def job(self) -> Job:
        return self.storage.jobs.of_build(self.report.build.id)[0]

    def fails(self, content: bytes, state: JobState = JobState.FAILED) -> None:
        """End the job, which leaves a test report."""
        build, lease = self.report.build, started(self.storage, self.job)
        written = self.storage.artifacts.files.write(build.uuid, "out/report.xml", [content])
        self.storage.artifacts.store(build, self.job, [written])
        finish(self.storage, self.job, lease, state)

    def show(self, state: BuildState) -> None:
        report = replace(self.report, state=report_state(state))
        report_id = self.app.host.report(self.repository, report)
        self.storage.build_origins.reported(report.build.id, state, report_id)
        origin = self.storage.build_origins.get(report.build.id)
        assert origin is not None
        self.report = replace(report, origin=origin)

    def shown(self) -> list[dict[str, object]]:
        """Report the failure; return the annotations of the check run."""
        self.show(BuildState.FAILED)
        (annotations,) = self.app.server.annotations.values()
        return annotations

    @property
    def summary(self) -> str:
        (run,) = self.app.server.check_runs.values()
        return str(run["output"]["summary"])


@pytest.fixture
def suite(app: App, clock: ManualClock) -> Suite:
    return Suite(app, clock)


def test_failed_tests_are_at_their_lines(suite: Suite):
    suite.fails(report_of(FAILURE, passed=2))
    assert suite.shown() == [
        {
            "path": "tests/test_a.py",
            "start_line": 12,
            "end_line": 12,
            "annotation_level": "failure",
            "title": "tests.test_a t0",
            "message": FAILURE,
        }
    ]
    assert "#### 1 of 3 tests failed" in suite.summary


def test_a_test_that_failed_in_a_step_that_passed_is_a_warning(suite: Suite):
    suite.fails(report_of(FAILURE), JobState.PASSED)
    assert [each["annotation_level"] for each in suite.shown()] == ["warning"]


def test_fifty_tests_are_annotated_and_all_are_counted(suite: Suite):
    suite.fails(report_of(*[FAILURE] * 70))
    assert len(suite.shown()) == 50
    assert "#### 70 of 70 tests failed" in suite.summary
    assert "and 50 more" in suite.summary


def test_the_last_200_lines_of_a_failure_are_quoted(suite: Suite):
    suite.fails(report_of("\n".join([FAILURE, *(f"line {number}" for number in range(201))])))
    (shown,) = suite.shown()
    assert shown["start_line"] == 12
    assert str(shown["message"]).split("\n") == [f"line {number}" for number in range(1, 201)]


def test_a_report_that_is_made_again_adds_no_annotations(suite: Suite):
    suite.fails(report_of(FAILURE))
    before = suite.report
    suite.shown()
    suite.report = before  # as after an answer of GitHub that was lost
    assert len(suite.shown()) == 1


def test_secrets_are_masked_in_annotations_and_summary(suite: Suite):
    build, job = suite.report.build, suite.job
    with suite.storage.logs.writer(build.uuid, job.uuid, 1, Masker.hiding([SECRET])) as writer:
        writer.output(f"the token is {SECRET}\n".encode())
    suite.fails(report_of(f"{FAILURE} {SECRET}", "x" * 8180 + SECRET))
    shown = str(suite.shown()) + suite.summary
    assert "the token is ***" in suite.summary
    assert f"{FAILURE} ***" in shown
    assert "hunter" not in shown


def test_with_more_secrets_than_can_be_hidden_no_test_is_shown(suite: Suite, monkeypatch: pytest.MonkeyPatch):
    suite.fails(report_of(FAILURE))
    monkeypatch.setattr("actors.test_reports.results._MOST_SECRET_CHARS", len(SECRET) - 1)
    assert suite.shown() == []


@pytest.mark.parametrize("value", ["another-value", None])
def test_without_the_secret_of_then_no_test_is_shown(suite: Suite, value: str | None):
    suite.fails(report_of(f"{FAILURE} {SECRET}"))
    if value is None:
        suite.storage.secrets.remove(suite.scope, "TOKEN")
    else:
        suite.storage.secrets.put(suite.scope, "TOKEN", value)
    assert suite.shown() == []
    assert "tests failed" not in suite.summary


def says(suite: Suite, *annotations: Annotation, summary: str = "") -> None:
    build, job = suite.report.build, suite.job
    suite.storage.told.store_annotations(job.id, build.id, annotations)
    if summary:
        suite.storage.told.store_summary(JobSummary(job.id, build.id, summary, is_cut=False))


def test_annotations_of_jobs_come_after_failed_tests(suite: Suite):
    suite.fails(report_of(FAILURE))
    says(
        suite,
        Annotation(AnnotationLevel.NOTICE, "all *is* well"),
        Annotation(AnnotationLevel.WARNING, "is odd", "README.md", 3, 7, "W1"),
        Annotation(AnnotationLevel.ERROR, "is wrong", "README.md"),
        Annotation(AnnotationLevel.ERROR, "is elsewhere", "/usr/lib/x.h", 1),
        Annotation(AnnotationLevel.ERROR, "is elsewhere", "../x.h", 1),
        summary="# Sizes\n<b>",
    )
    failed, error, warning = suite.shown()
    assert failed["path"] == "tests/test_a.py"
    place = {"path": "README.md", "start_line": 1, "end_line": 1}
    assert error == {**place, "annotation_level": "failure", "message": "is wrong"}
    assert warning == {
        **place,
        "start_line": 3,
        "end_line": 3,
        "start_column": 7,
        "end_column": 7,
        "annotation_level": "warning",
        "message": "is odd",
        "title": "W1",
    }
    assert "#### Annotations: 3 errors, 1 notice, 1 warning\n\n- test: all &#42;is&#42; well" in suite.summary
    assert suite.summary.endswith("#### test: summary\n\n# Sizes\n&lt;b>")


def test_fifty_annotations_of_jobs_are_shown(suite: Suite):
    suite.fails(report_of(FAILURE))
    many = [Annotation(AnnotationLevel.ERROR, str(number), "README.md", number) for number in range(1, 70)]
    says(suite, *many)
    assert [each["start_line"] for each in suite.shown()] == [12, *range(1, 50)]


def test_files_outside_of_the_repository_are_not_annotated(suite: Suite):
    suite.fails(b'<testsuite><testcase name="t"><failure>/etc/passwd:1: x</failure></testcase></testsuite>')
    assert suite.shown() == []
    assert "#### 1 of 1 tests failed" in suite.summary


def test_what_is_no_report_is_passed_over(suite: Suite):
    suite.fails(b"<!DOCTYPE x><testsuite/>")
    assert suite.shown() == []


def test_failures_that_are_not_shown_are_told(suite: Suite):
    cases = "".join(f'<testcase file="README.md" name="t{n}"><failure/></testcase>' for n in range(60))
    suite.fails(f"<testsuite>{cases}</testsuite>".encode())
    assert len(suite.shown()) == 50
    assert "#### 60 of 60 tests failed" in suite.summary
    assert "… and 40 more" in suite.summary
    assert "Of 60 failed tests in files of the repository, the first 50 are annotated." in suite.summary


def test_a_report_that_cannot_be_read_is_told(suite: Suite):
    suite.fails(b"<?xml version='1.0' encoding='utf-7'?><testsuite/>")
    suite.show(BuildState.FAILED)
    assert "0 of 1 report files were read; the numbers are of these." in suite.summary
