"""Check runs: the states of a build at GitHub, and a summary that no step's name or log can break."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.source_hosts.github.check_runs import (
    FinishedStep,
    Remarks,
    check_run,
    fenced,
    inert,
    last_lines,
    plain,
)
from actors.source_hosts.host import CommitReport, Report, ReportState, Skip
from actors.source_hosts.reporting import report_state
from storage import (
    BuildState,
    CommitCheck,
    Job,
    JobState,
    NewBuild,
    NewOrigin,
    NewPipeline,
    OriginEvent,
    ShownSummary,
    WaitsFor,
)
from tests.actors.source_hosts.github.conftest import App
from tests.records import finish, new_job, started

URL = "https://ci.example.org/acme/pipelines/web/builds/1"


@pytest.fixture
def report(app: App) -> Report:
    """The first state of a build with two steps."""
    app.bound()
    storage = app.storage
    pipeline = storage.pipelines.create(app.organization_id, NewPipeline("web", "Web", "acme/web", "main"))
    with storage.transaction():
        jobs = [new_job("one", name="One"), new_job("two", name="Two | `x` @eve <b>")]
        build = storage.builds.create(pipeline, NewBuild("main", "c" * 40), jobs)
        origin = NewOrigin(app.repositories()[0].id, OriginEvent.PUSH, "refs/heads/main")
        storage.build_origins.record(build.id, origin, reports=True)
    found = storage.build_origins.get(build.id)
    assert found is not None
    return Report(ReportState.WAITING, build, found, URL)


def jobs(app: App, report: Report) -> list[Job]:
    return app.storage.jobs.of_build(report.build.id)


def reported(app: App, report: Report, state: BuildState) -> Report:
    """Report a state as the reporter does; return the report with what GitHub has then."""
    report = replace(report, state=report_state(state))
    report_id = app.host.report(app.repositories()[0], report)
    app.storage.build_origins.reported(report.build.id, state, report_id)
    origin = app.storage.build_origins.get(report.build.id)
    assert origin is not None
    return replace(report, origin=origin)


def test_a_check_run_goes_through_the_states_of_its_build(app: App, report: Report):
    for state in (BuildState.SCHEDULED, BuildState.RUNNING, BuildState.FAILED):
        report = reported(app, report, state)
    (number,) = app.server.check_runs
    assert app.server.states == [(number, "queued"), (number, "in_progress"), (number, "failure")]
    run = app.server.check_runs[number]
    assert (run["name"], run["head_sha"], run["details_url"]) == ("ci/web", "c" * 40, URL)
    assert run["external_id"] == report.build.uuid
    assert run["repository"] == "acme/web"
    assert report.origin.report_id == str(number)

    report = reported(app, report, BuildState.RUNNING)
    report = reported(app, report, BuildState.FAILED)
    assert len(app.server.check_runs) == 2, "a retried build has a check run that has not ended"


def test_conclusions_are_in_the_words_of_github(app: App, report: Report):
    def conclusion(state: ReportState, *states: JobState) -> object:
        steps = [FinishedStep(replace(jobs(app, report)[0], state=each)) for each in states]
        return check_run(replace(report, state=state), steps)["conclusion"]

    assert conclusion(ReportState.PASSED, JobState.PASSED, JobState.SKIPPED) == "success"
    assert conclusion(ReportState.PASSED, JobState.SKIPPED) == "neutral"
    assert conclusion(ReportState.FAILED, JobState.PASSED, JobState.TIMED_OUT) == "failure"
    assert conclusion(ReportState.CANCELED, JobState.CANCELED) == "cancelled"


def of_pull_request(app: App, report: Report) -> Report:
    """Return the report of another build of the same commit."""
    storage = app.storage
    pipeline = storage.pipelines.by_id(report.build.pipeline_id)
    assert pipeline is not None
    with storage.transaction():
        build = storage.builds.create(pipeline, NewBuild("topic", "c" * 40), [new_job("one", name="One")])
        origin = NewOrigin(app.repositories()[0].id, OriginEvent.PULL_REQUEST, "refs/pull/1/head", pull_request=1)
        storage.build_origins.record(build.id, origin, reports=True)
    found = storage.build_origins.get(build.id)
    assert found is not None
    return Report(ReportState.WAITING, build, found, URL.replace("1", "2"))


def shown(app: App) -> list[object]:
    """Return what each check run shows, oldest first; all have the name that people require."""
    runs = [app.server.check_runs[number] for number in sorted(app.server.check_runs)]
    assert {each["name"] for each in runs} == {"ci/web"}
    return [each["conclusion"] if each["status"] == "completed" else each["status"] for each in runs]


def test_no_check_run_is_green_while_another_build_failed(app: App, report: Report):
    """GitHub takes the newest check run of a name for the state of a required check."""
    push, change = report, of_pull_request(app, report)
    push = reported(app, push, BuildState.RUNNING)
    change = reported(app, replace(change, others=(push,)), BuildState.RUNNING)
    change = reported(app, replace(change, others=(push,)), BuildState.PASSED)
    assert shown(app) == ["in_progress", "in_progress"], "the build of the push has not ended"
    push = reported(app, replace(push, others=(replace(change, others=()),)), BuildState.FAILED)
    assert shown(app) == ["failure", "failure"]
    output = app.server.check_runs[max(app.server.check_runs)]["output"]
    assert output["title"] == "Build 2 passed, build 1: failed"
    assert f"[build 1]({URL}) (main: failed)" in output["summary"]


def test_check_runs_turn_green_when_the_last_build_passed(app: App, report: Report):
    push, change = reported(app, report, BuildState.RUNNING), of_pull_request(app, report)
    change = reported(app, replace(change, others=(push,)), BuildState.PASSED)
    finish(app.storage, job := jobs(app, push)[0], started(app.storage, job))
    reported(app, replace(push, others=(replace(change, others=()),)), BuildState.PASSED)
    assert shown(app) == ["success", "neutral"], "the second has no step that ran"


def summary(report: Report, *steps: FinishedStep) -> str:
    output = check_run(replace(report, state=ReportState.FAILED), steps)["output"]
    assert isinstance(output, dict)
    return str(output["summary"])


def test_failures_show_the_last_lines_of_their_logs(app: App, report: Report):
    first, second = jobs(app, report)
    failed = replace(second, state=JobState.FAILED, exit_code=3)
    log = "".join(f"line {number}\n" for number in range(100)).encode()
    text = summary(report, FinishedStep(replace(first, state=JobState.PASSED)), FinishedStep(failed, log))
    assert "| One | passed |  |" in text
    assert "failed, exit code 3" in text
    assert "line 70\n" in text
    assert "line 69\n" not in text
    assert "Two &#124; &#96;x&#96; &#64;eve &#60;b&#62;" in text


def test_what_failed_softly_shows_no_log(app: App, report: Report):
    job = replace(jobs(app, report)[0], state=JobState.FAILED, soft_failed=True, exit_code=1)
    text = summary(report, FinishedStep(job, b"harmless"))
    assert "failed, exit code 1, allowed to" in text
    assert "harmless" not in text


def test_the_log_of_a_failed_step_is_read_as_it_was_written(app: App, report: Report):
    job = jobs(app, report)[0]
    with app.storage.logs.writer(report.build.uuid, job.uuid, 1) as writer:
        writer.output(b"x" * 100_000 + b"\nthe end, with \xff\n")
    finish(app.storage, job, started(app.storage, job), JobState.FAILED)
    reported(app, report, BuildState.FAILED)
    (run,) = app.server.check_runs.values()
    assert "the end, with �" in run["output"]["summary"]


def test_a_hostile_log_stays_in_its_block():
    text = last_lines(
        b"```\n</details>\n````` # x\n\x1b[31mred\x1b[0m\n10%\r99%\n\x1b]0;title\x07a\xe2\x80\xaeb\n\n\n", 30, 4000
    )
    assert text == "```\n</details>\n````` # x\nred\n99%\nab"
    block = fenced(text)
    assert block.startswith("``````text\n")
    assert block.endswith("\n``````")


@given(st.binary(max_size=2000))
def test_no_log_ends_its_block_or_shows_controls(log: bytes):
    lines = fenced(last_lines(log, 30, 1000)).split("\n")
    fence = lines[-1]
    assert re.fullmatch("`{3,}", fence)
    assert lines[0] == f"{fence}text"
    assert not any(fence in line for line in lines[1:-1])
    assert all(each.isprintable() or each == "\t" or ord(each) > 127 for line in lines for each in line)


@given(st.text(max_size=50))
def test_no_name_makes_a_mark(name: str):
    assert not set(plain(name)) & set("|`<>[]*_@\n\\!\"'()~")


def test_a_summary_fits_github_whatever_the_build_wrote(app: App, report: Report):
    """GitHub takes 65,535 characters, and counts them in its own way; here they are 60,000."""
    job, log = replace(jobs(app, report)[0], state=JobState.FAILED, name="|" * 200), ("`" * 499 + "\n").encode() * 100
    steps = (FinishedStep(replace(job, error_message="<" * length), log) for length in range(0, 1001, 50))
    texts = [summary(report, *[each] * 500) for each in steps]
    assert 59_000 < max(map(len, texts)) <= 60_000
    assert all("and 400 more" in each for each in texts)
    assert max(len(json.dumps(each)) for each in texts) < 10**6


def test_the_logs_of_ten_failed_steps_are_quoted(app: App, report: Report):
    job = replace(jobs(app, report)[0], state=JobState.FAILED)
    text = summary(report, *(FinishedStep(replace(job, name=f"step{each}"), b"the end") for each in range(11)))
    assert text.count("```text\nthe end\n```") == 10
    assert "#### step9: failed" in text
    assert text.count("step10") == 1, "it is in the table"


def test_a_build_that_never_began_says_why(report: Report):
    build = replace(report.build, state=BuildState.FAILED, error_message="NameError: x\n```")
    run = check_run(replace(report, build=build, state=ReportState.FAILED), [])
    assert run["conclusion"] == "failure"
    assert run["output"] == {"title": "Build 1 failed", "summary": "````text\nNameError: x\n```\n````"}


def test_a_build_that_waits_for_an_approval_has_a_button(app: App, report: Report):
    build = replace(report.build, waits_for=WaitsFor.APPROVAL, approval_reason="eve may not push")
    reported(app, replace(report, build=build), BuildState.SCHEDULED)
    (run,) = app.server.check_runs.values()
    assert run["actions"] == [{"label": "Approve", "description": "Let this commit be built", "identifier": "approve"}]
    assert run["output"]["title"] == "Build 1 waits for an approval"
    assert run["output"]["summary"].startswith("eve may not push\n")
    assert "actions" not in check_run(replace(report, state=ReportState.WAITING), [])


def test_a_pipeline_that_is_not_built_is_a_skipped_run(app: App):
    """GitHub takes it for passed where the check is required; no reason of a stranger is mark-up."""
    app.bound()
    url = "https://ci.example.org/acme/pipelines/web"
    app.host.report_skip(app.repositories()[0], Skip("web", "c" * 40, "it has no trigger for @eve", url))
    ((number, state),) = app.server.states
    run = app.server.check_runs[number]
    assert (state, run["name"], run["head_sha"], run["details_url"]) == ("skipped", "ci/web", "c" * 40, url)
    assert run["output"]["summary"] == "web is not built&#58; it has no trigger for &#64;eve"


def test_one_run_shows_all_pipelines_of_a_commit(app: App):
    """It is brought up to date until it ends; a commit that is built again has another one."""
    app.bound()
    (repository,) = app.repositories()
    told = CommitCheck(1, repository.id, "c" * 40, None, "", None, 0)
    runs = []
    for state in (
        ReportState.WAITING,
        ReportState.RUNNING,
        ReportState.FAILED,
        ReportState.RUNNING,
        ReportState.PASSED,
    ):
        check = CommitReport("c" * 40, state, f"{state}: ci".capitalize(), "https://ci.example.org")
        report_id = app.host.report_commit(repository, check, told)
        told = replace(told, state=state, report_id=report_id)
        runs.append(report_id)
    assert runs == [runs[0]] * 3 + [runs[3]] * 2
    assert runs[0] != runs[3]
    assert [state for _, state in app.server.states] == ["queued", "in_progress", "failure", "in_progress", "success"]
    assert {run["name"] for run in app.server.check_runs.values()} == {"ci-daemon"}


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("# A\n\n| a |\n|--|\n| *1* |", "# A\n\n| a |\n|--|\n| *1* |"),
        ("<img src=x> @eve ![x](https://y)", "&lt;img src=x> &#64;eve [x](https://y)"),
        ("```\n<b> @x\n``` no\n ```` \n<i>", "```\n<b> @x\n``` no\n ```` \n&lt;i>"),
        ("~~~ `x`\n```\n<b>", "~~~ `x`\n```\n<b>\n~~~"),
        ("- a\n  ```\n<b>", "- a\n  ```\n&lt;b>"),
        ("``` a`b\n<b>", "``` a`b\n&lt;b>"),
        ("    ```\n<b>", "    ```\n&lt;b>"),
    ],
)
def test_markdown_of_jobs_has_no_html_and_ends_its_blocks(markdown: str, shown: str):
    assert inert(markdown, 10_000) == shown


def test_summaries_fill_what_room_there_is(report: Report):
    texts = ["```\n" + "x<b>\n" * 9_000, "*" * 65_536, "short"]
    rows = tuple(ShownSummary(number, "", "One", text, is_cut=False) for number, text in enumerate(texts))
    shown = check_run(replace(report, state=ReportState.FAILED), [], remarks=Remarks(summaries=rows))["output"][
        "summary"
    ]
    assert 45_000 < len(shown) < 60_000
    assert "```\n\n#### One: summary\n\n… and more." in shown
    assert shown.endswith("#### One: summary\n\nshort")


def test_coverage_is_in_the_title_and_the_commits_check(report: Report):
    ended = replace(report, state=ReportState.PASSED, coverage="coverage 83.21% (+0.40)")
    assert check_run(ended, [])["output"]["title"] == "Build 1 passed, coverage 83.21% (+0.40)"
    commit = CommitReport.of("c" * 40, [ended], [])
    assert commit is not None
    assert commit.description == "Passed: web (coverage 83.21% (+0.40))"
