"""Tests of builds, from the reports in JUnit's XML among their artifacts.

They are for members, as artifacts are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.test_reports import CaseOutcome
from api.builds.test_reports import ListedTest, TestQuestion
from api.errors.catalog import ApiError
from api.openapi.operations import Parameter
from api.operations.operation import GET, Call, Query, Span, operation
from api.operations.things import BUILD, PIPELINE, ThisBuild, ThisPipeline
from storage import Page, example, immutable, showing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.builds.test_reports import PastTest
    from storage import Uuid

_ERRORS = ("invalid_filter",)
_STEP = Parameter("step", "Only those of the job with this step key.", {"type": "string", "examples": ["unit"]})
_FILTERS = (
    Parameter("outcome", "Only those with this outcome.", {"type": "string", "enum": list(map(str, CaseOutcome))}),
    Parameter("name", "Only those whose suite or name has this text in it, in whatever case.", {"type": "string"}),
    _STEP,
)
_TEST = (
    Parameter("name", "The name of the test, as a report has it.", {"type": "string"}, required=True),
    Parameter("suite", "Its suite or class; without one, tests with this name of all suites.", {"type": "string"}),
    _STEP,
    Parameter("branch", "The branch of the builds; by default the pipeline's default branch.", {"type": "string"}),
)


@immutable
class TestRecord:
    """A test of a build; its ``suite``, ``name`` and ``output`` may be cut.

    ``file`` and ``line`` are null where the report does not say them. ``output`` begins with the message of a failure.
    """

    __test__ = False  # pytest would take it for tests

    job_id: Uuid
    step_key: str | None
    suite: str = example("tests.test_math")
    name: str = example("test_adds")
    outcome: CaseOutcome
    seconds: float
    output: str = example("assert 2 == 3")
    file: str | None = example("tests/test_math.py")
    line: int | None


@immutable
class TestSummaryRecord:
    """The numbers of a build's tests.

    ``reports`` counts the files that may be reports, ``unread_reports`` those of them that are not in the numbers;
    ``faults`` says why.
    """

    __test__ = False  # pytest would take it for tests

    failed: int
    skipped: int
    passed: int
    reports: int
    unread_reports: int
    faults: tuple[str, ...] = example(["out/junit.xml: it has a document type"])


@immutable
class PastTestRecord:
    """The run of a test in a build."""

    build_number: int
    commit: str | None
    step_key: str
    suite: str = example("tests.test_math")
    outcome: CaseOutcome
    seconds: float


@operation("listBuildTests", GET, f"{BUILD}/tests", "A page of tests.", errors=_ERRORS, parameters=_FILTERS)
def list_build_tests(call: Call, build: ThisBuild, span: Span, query: Query) -> Page[TestRecord]:
    """List the tests of a build by report, in the order in which its jobs ended.

    They come from artifacts that end in `.xml` and are reports in the format of JUnit: at most 50,000 tests, first
    those that failed.
    """
    steps = {job.uuid: job.step_key for job in call.storage.jobs.of_build(build.id)}
    outcome, text, step = _outcome(query), query.given["name"].casefold(), query.given["step"]

    def wanted(test: ListedTest) -> bool:
        case = test.case
        return (
            outcome in {None, case.outcome}
            and (not step or steps.get(test.artifact.job_uuid) == step)
            and (not text or text in case.suite.casefold() or text in case.name.casefold())
        )

    page = call.test_reports.page(build, wanted, span.limit, span.after or 0)
    return Page(tuple(_record(each, steps) for each in page.rows), page.next_key)


@operation("getBuildTestSummary", GET, f"{BUILD}/test-summary", "The numbers.")
def get_build_test_summary(call: Call, build: ThisBuild) -> TestSummaryRecord:
    """Count the tests of a build by their outcomes."""
    read = call.test_reports.of_build(build)
    counts = {each.value: read.counts.get(each, 0) for each in CaseOutcome}
    return TestSummaryRecord(**counts, reports=read.files, unread_reports=read.unread, faults=read.faults)


@operation("listTestHistory", GET, f"{PIPELINE}/test-history", "A page of runs.", errors=_ERRORS, parameters=_TEST)
def list_test_history(call: Call, pipeline: ThisPipeline, span: Span, query: Query) -> Page[PastTestRecord]:
    """List the runs of one test in the builds of a branch, newest first.

    There is a row for each step of a build that ran it. A page looks at as many builds as its limit says, at most; so
    it may have fewer rows, or none, although there is a next one. Reports of more than 2 MiB are left out.
    """
    given = query.given
    if not given["name"]:
        raise ApiError("invalid_filter", "name: expected the name of a test")
    question = TestQuestion(
        pipeline.id,
        given["branch"] or pipeline.default_branch,
        given["name"],
        given["suite"] or None,
        given["step"] or None,
    )
    page = call.test_reports.history(question, span.limit, span.after)
    return Page(tuple(map(_past, page.rows)), page.next_key)


def _outcome(query: Query) -> CaseOutcome | None:
    given = query.given["outcome"]
    if given and given not in tuple(CaseOutcome):
        raise ApiError("invalid_filter", f"outcome: expected one of {', '.join(CaseOutcome)}")
    return CaseOutcome(given) if given else None


def _record(test: ListedTest, steps: Mapping[str, str]) -> TestRecord:
    case, job = test.case, test.artifact.job_uuid
    return showing(
        TestRecord, case, job_id=job, step_key=steps.get(job), file=case.file or None, line=case.line or None
    )


def _past(run: PastTest) -> PastTestRecord:
    return showing(PastTestRecord, run.case, build_number=run.number, commit=run.commit, step_key=run.step_key)
