"""The jobs that failed on the page of a build, the ends of their logs, and the jobs beside a log."""

from __future__ import annotations

import json

from actors.test_reports import CaseOutcome, ReadReports
from api.console.builds.failures import Tail, siblings_of, tail_of
from api.console.builds.page import count_of_tests
from storage import JobState
from tests.api.console.browser import Browser, main_of
from tests.api.world import Account, BuildPath, PipelinePath


class Text:
    """A log in memory."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read(self, start: int, length: int) -> bytes:
        return self.content[start : start + length]


def tail(content: bytes) -> Tail:
    return tail_of(Text(content), len(content))


def test_a_tail_has_fifteen_lines_and_opens_at_the_failure():
    lines = [f"line {number}" for number in range(1, 31)]
    lines[19], lines[21], lines[24] = "0 failed", "\x1b[31mE  AssertionError\x1b[0m: no", "1 failed"
    found = tail("\n".join(lines).encode() + b"\n")
    assert found.lines == (*lines[15:21], "E  AssertionError: no", *lines[22:])
    assert (found.at, found.line) == (6, 22)


def test_a_tail_has_the_titles_of_groups_and_no_other_marks():
    content = b"::group::Compile\ncc main.c\n::endgroup::\n1 error\n::endgroup::\ndone\n"
    assert tail(content) == Tail(("Compile", "cc main.c", "1 error", "done"), 2, 4)
    long = b"".join(b"line %d\n::endgroup::\n" % number for number in range(1, 31))
    assert tail(long) == Tail(tuple(f"line {number}" for number in range(16, 31)), None, 59)


def test_a_tail_without_words_of_failure_opens_at_its_end():
    assert tail(b"one\ntwo\n") == Tail(("one", "two"), None, 2)
    assert tail(b"one\ntwo") == Tail(("one", "two"), None, 2)
    assert tail(b"") == Tail()


def test_lines_before_the_tail_are_counted_up_to_a_bound():
    long = b"x" * 1023 + b"\n"
    assert tail(long * 1000 + b"last\n").line == 1001
    assert tail(long * 1025) == Tail(("x" * 500,) * 15)


def test_an_endless_line_costs_no_more_than_its_end():
    found = tail(b"error " * 10**6)
    assert (len(found.lines), len(found.lines[0]), found.line) == (1, 500, None)


def graph(*needs: tuple[int, int]) -> str:
    nodes = [{"step": {"key": f"j{at}", "cmd": "true", "label": f"Job {at}"}, "env": {}} for at in range(5)]
    edges = [[*each, "depends_on"] for each in needs]
    return json.dumps({"version": "0", "graph": {"nodes": nodes, "edges": edges}})


def test_jobs_stand_below_the_last_that_they_wait_for(ada: Account, pipeline: PipelinePath):
    build = pipeline.build(pipeline_ir=graph((0, 1), (0, 3), (1, 2), (3, 2), (1, 4)))
    jobs = ada.world.storage.jobs.of_build(build.stored.id)
    found = siblings_of(jobs, jobs[4].uuid)
    assert sorted(each.name for each in found) == [f"Job {at}" for at in range(5)]
    level = {each.name: each.level for each in found}
    assert (level["Job 0"], level["Job 1"], level["Job 3"], level["Job 4"]) == (0, 1, 1, 2)
    assert [each.name for each in found if each.current] == ["Job 4"]


def failed(pipeline: PipelinePath) -> BuildPath:
    """Return a build of four jobs, of which one failed and one was skipped."""
    build = pipeline.build(pipeline_ir=graph())
    for at in (0, 1):
        build.job(at).end(JobState.PASSED)
    build.job(2).write(b"<b>hello</b>\n", b"error: no such file\n")
    build.job(2).end(JobState.FAILED)
    for at in (3, 4):
        build.job(at).end(JobState.SKIPPED)
    return build


def test_what_failed_is_first_with_the_end_of_its_log(ada: Account, pipeline: PipelinePath):
    build = failed(pipeline)
    shown = main_of(Browser.of(ada).get(f"/ada-example-org/pipelines/demo/builds/{build.stored.number}"))
    assert "&lt;b&gt;hello&lt;/b&gt;\n<b>error: no such file</b>" in shown
    assert f'/jobs/{build.job(2).uuid}#L2">Open at line 2</a>' in shown
    assert shown.index("Open at line 2") < shown.index('id="job-0"')


def test_the_jobs_of_a_build_are_beside_each_log(ada: Account, pipeline: PipelinePath):
    build = failed(pipeline)
    page = f"/ada-example-org/pipelines/demo/builds/{build.stored.number}/jobs/"
    shown = Browser.of(ada).get(f"{page}{build.job(2).uuid}").text
    assert f'{build.job(2).uuid}" aria-current="page">Job 2</a>' in shown
    for at in (0, 1, 3, 4):
        assert f'{page}{build.job(at).uuid}">Job {at}</a>' in shown


def test_tests_are_counted_for_their_tab():
    assert count_of_tests(ReadReports()) == ""
    assert count_of_tests(ReadReports(counts={CaseOutcome.PASSED: 4, CaseOutcome.SKIPPED: 1})) == "5"
    assert count_of_tests(ReadReports(counts={CaseOutcome.PASSED: 4, CaseOutcome.FAILED: 3})) == "3 ✗"
