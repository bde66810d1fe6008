"""`ci-daemon build` with a server: the same words, tables and JSON as on the box."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from ci_daemon.command import main
from storage import Build, BuildState, JobState, NewBuild, Pipeline, PreviewSpec
from tests.ci_daemon.remote.conftest import Printed, RunJson
from tests.ci_daemon.scripted_service import ScriptedBuild, ScriptedService
from tests.e2e.pipelines import Graph
from tests.records import new_job

IR = Graph().step("lint", "true").step("test", "true").ir()
pytestmark = pytest.mark.usefixtures("at_server")


def new_build(service: ScriptedService, pipeline: Pipeline) -> ScriptedBuild:
    jobs = [new_job("lint"), new_job("test")]
    build = service.storage.builds.create(pipeline, NewBuild("main", "c0ffee", pipeline_ir=IR), jobs)
    return ScriptedBuild(service, build)


@pytest.fixture
def failed(service: ScriptedService, pipeline: Pipeline) -> str:
    """The name of a build whose second job failed, with escape sequences in its log."""
    build = new_build(service, pipeline)
    build.run("lint", "clean\n")
    build.start("test")
    build.write("test", "1 failed\x1b]0;owned\x07\x1b[2J\n")
    build.finish("test", JobState.FAILED, exit_code=7)
    build.move_build(BuildState.FAILED)
    return f"{service.org}/web/1"


def test_builds_are_listed_beyond_one_page(
    service: ScriptedService, pipeline: Pipeline, printed: Printed, run_json: RunJson
):
    assert printed("build", "list", f"{service.org}/web") == [f"{service.org}/web has no build"]
    for _ in range(103):
        new_build(service, pipeline)
    listed = run_json("build", "list", f"{service.org}/web", "--limit", "102")
    assert [each["number"] for each in listed] == list(range(103, 1, -1))
    assert printed("build", "list", f"{service.org}/web", "--limit", "1")[1].split()[:4] == [
        "103",
        "scheduled",
        "main",
        "c0ffee",
    ]


def test_a_build_is_shown_as_on_the_box(
    service: ScriptedService, failed: str, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
):
    of_server = {**run_json("build", "show", failed), "url": None}
    monkeypatch.setenv("CI_DAEMON_STATE_DIR", str(service.storage.directory))
    of_box = {**run_json("build", "show", failed), "url": None}
    assert of_server == of_box


def test_logs_come_in_the_order_of_the_plan(failed: str, printed: Printed, run_json: RunJson):
    lines = printed("build", "logs", failed)
    assert [line.split(" | ")[0].strip() for line in lines] == ["lint", "test"]
    assert lines[0].endswith(" | clean")
    assert "\x1b" not in lines[1]
    assert "\x07" not in lines[1]
    assert [each["key"] for each in run_json("build", "logs", failed)] == ["lint", "test"]
    assert len(printed("build", "logs", failed, "lint")) == 1
    assert printed("build", "logs", failed, "nothing", code=1) == []


def test_the_page_of_a_build_is_where_browsers_use_passkeys(service: ScriptedService, failed: str, run_json: RunJson):
    port = urlsplit(service.url).port
    assert run_json("build", "open", failed) == {"url": f"http://localhost:{port}/{service.org}/pipelines/web/builds/1"}


def test_watching_ends_with_the_exit_code_of_the_build(failed: str, printed: Printed):
    lines = printed("build", "watch", failed, code=1)
    assert any(line.endswith("| clean") for line in lines)
    assert lines[-1].startswith("build #1 failed")


def test_a_build_is_canceled_and_run_again(service: ScriptedService, pipeline: Pipeline, printed: Printed, failed: str):
    waiting = new_build(service, pipeline)
    name = f"{service.org}/web/{waiting.build.number}"
    assert printed("build", "cancel", name) == [f"build {name} is being canceled"]
    assert printed("build", "rebuild", failed) == [f"build {service.org}/web/3 repeats {failed}"]
    for lease in service.storage.leases.live():
        service.storage.leases.end(lease.id)
    assert printed("build", "retry", failed) == [f"build {failed} runs again now"]
    [retried] = [each for each in service.storage.builds.unfinished() if each.number == 1]
    assert isinstance(retried, Build)


def test_a_build_of_a_fork_is_approved(
    service: ScriptedService, pipeline: Pipeline, run_json: RunJson, capsys: pytest.CaptureFixture[str]
):
    new = NewBuild("eve:main", "c0ffee", untrusted_origin="pull/1/7", approval_reason="eve is not a member")
    waiting = service.storage.builds.create(pipeline, new, [new_job("lint")])
    name = f"{service.org}/web/{waiting.number}"
    assert run_json("build", "show", name)["pending_reason"].endswith(": eve is not a member")
    approved = run_json("build", "approve", name)
    assert (approved["approved_by"], approved["pending_reason"]) == ("ada@example.org", None)
    assert main(["build", "approve", name]) == 1
    refused = capsys.readouterr().err
    assert (refused.count("\n"), ": ada@example.org approved it at " in refused) == (1, True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody/web/1", 'organization "nobody": `ci-daemon org list` shows yours'),
        ("{org}/none/1", 'pipeline "none": `ci-daemon pipeline list ORG` shows all'),
        ("{org}/web/9", 'build "9": `ci-daemon build list ORG/PIPELINE` shows all'),
        ("../../1", "organization"),
    ],
)
def test_what_does_not_exist_is_said(
    service: ScriptedService, failed: str, name: str, message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["build", "show", name.format(org=service.org)]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


def test_a_refused_token_leads_to_login(
    failed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("CI_DAEMON_TOKEN", "ci_wrong")
    assert main(["build", "show", failed]) == 1
    assert "sign in with `ci-daemon login URL`" in capsys.readouterr().err


@pytest.fixture
def previewed(service: ScriptedService, pipeline: Pipeline) -> str:
    """The name of a build whose job ``site`` has a preview."""
    jobs = [new_job("lint"), new_job("site", preview=PreviewSpec(8000, "serve").document)]
    build = service.storage.builds.create(pipeline, NewBuild("main", "c0ffee", pipeline_ir=IR), jobs)
    service.storage.previews.add(build, service.storage.jobs.of_build(build.id)[1], "a-disk")
    return f"{service.org}/web/1"


def test_previews_are_listed_opened_and_ended(
    service: ScriptedService, previewed: str, printed: Printed, run_json: RunJson, capsys: pytest.CaptureFixture[str]
):
    """A member is let in by a URL of their own; one that has ended, and a step without one, say so."""
    assert printed("preview", "list", previewed)[1].split()[:2] == ["site", "asleep"]
    (listed,) = run_json("preview", "list", previewed)
    entered = run_json("preview", "open", f"{previewed}/site")["url"]
    assert entered.startswith(f"{listed['url']}/.ci-daemon/enter?token=")
    assert run_json("preview", "end", f"{previewed}/site") == {"ended": listed["id"]}
    assert "a member ended it" in printed("preview", "list", previewed)[1]
    for step, why in (("site", "has ended: a member ended it"), ("lint", "has no preview")):
        assert main(["preview", "open", f"{previewed}/{step}"]) == 1
        assert why in capsys.readouterr().err


def test_on_the_box_a_preview_is_opened_at_its_address(
    service: ScriptedService, previewed: str, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CI_DAEMON_STATE_DIR", str(service.storage.directory))
    (listed,) = run_json("preview", "list", previewed)
    opened = urlsplit(run_json("preview", "open", f"{previewed}/site")["url"])
    assert opened.netloc == f"preview-{listed['id']}.localhost:8800"
    run_json("preview", "end", f"{previewed}/site")
    assert service.storage.previews.there() == []
