"""`ci-daemon pipeline`, `schedule`, `notify` and `secret` with a server."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ci_daemon.command import main
from storage import Pipeline, SecretScope
from tests.ci_daemon.remote.conftest import Printed, RunJson
from tests.ci_daemon.scripted_service import ScriptedService

pytestmark = pytest.mark.usefixtures("at_server")


def test_a_pipeline_is_made_changed_and_deleted(
    service: ScriptedService, printed: Printed, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
):
    of = service.org
    assert printed("pipeline", "create", of, "My Web", "--repository", "https://example.org/a/web") == [
        f"created {of}/my-web"
    ]
    run_json(
        "pipeline", "edit", of, "my-web", "--visibility", "public", "--artifacts-public", "--concurrency-group", "web"
    )
    changed = run_json("pipeline", "show", of, "my-web")
    assert (changed["visibility"], changed["artifacts_public"], changed["concurrency_group"]) == ("public", True, "web")
    run_json("pipeline", "edit", of, "my-web", "--no-concurrency-group", "--cancel-superseded", "default")
    for option, shown in ((("--follower", of), of), (("--no-followers",), "none")):
        (line,) = printed("pipeline", "edit", of, "my-web", *option)
        assert line.endswith(f"followers {shown}")
    of_server = run_json("pipeline", "list", of)
    assert of_server[0]["concurrency_group"] is None
    with monkeypatch.context() as on_box:
        on_box.setenv("CI_DAEMON_STATE_DIR", str(service.storage.directory))
        assert run_json("pipeline", "list", of) == of_server
    assert printed("pipeline", "delete", of, "my-web", "--yes") == [f"deleted {of}/my-web"]
    assert service.pipelines() == []


def test_a_schedule_is_made_changed_and_removed(
    service: ScriptedService, pipeline: Pipeline, run_json: RunJson, capsys: pytest.CaptureFixture[str]
):
    of = (service.org, pipeline.slug)
    made = run_json("schedule", "add", *of, "30 4 * * *", "--timezone", "Asia/Tokyo")
    assert (made["branch"], made["enabled"]) == ("main", True)
    assert run_json("schedule", "set", *of, made["id"], "--disable")["next_at"] is None
    assert [each["id"] for each in run_json("schedule", "list", *of)] == [made["id"]]
    assert main(["schedule", "add", *of, "* * * *"]) == 1
    assert "cron" in capsys.readouterr().err
    assert main(["schedule", "remove", *of, made["id"]]) == 0
    assert main(["schedule", "remove", *of, made["id"]]) == 1


def test_a_notification_is_made_tested_and_removed(
    service: ScriptedService, pipeline: Pipeline, run_json: RunJson, capsys: pytest.CaptureFixture[str]
):
    of = (service.org, pipeline.slug)
    made = run_json("notify", "add", *of, "webhook", "https://hooks.example.org/builds")
    assert (made["events"], made["secret"][:6]) == (["build.finished"], "whsec_")
    assert run_json("notify", "rotate", made["id"])["secret"] != made["secret"]
    assert run_json("notify", "set", made["id"], "--disable", "--event", "build.recovered")["enabled"] is False
    [listed] = run_json("notify", "list", *of)
    assert (listed["id"], listed["events"], listed["enabled"]) == (made["id"], ["build.recovered"], False)
    sent = run_json("notify", "test", made["id"])
    assert [each["id"] for each in run_json("notify", "deliveries", made["id"])] == [sent["id"]]
    assert run_json("notify", "redeliver", sent["id"])["state"] == "waiting"
    assert main(["notify", "test", made["id"], "--to", "eve@example.org"]) == 1
    assert "a test mail goes to your own address" in capsys.readouterr().err
    assert run_json("notify", "remove", made["id"]) == {"removed": made["id"]}
    assert main(["notify", "redeliver", sent["id"]]) == 1
    assert "there is no notification_delivery" in capsys.readouterr().err


@pytest.mark.parametrize("of_pipeline", [False, True])
def test_a_secret_is_set_listed_and_removed(
    service: ScriptedService,
    pipeline: Pipeline,
    run_json: RunJson,
    monkeypatch: pytest.MonkeyPatch,
    of_pipeline: bool,
):
    options = (service.org, *(("--pipeline", pipeline.slug) if of_pipeline else ()))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"hunter2\n")))
    assert run_json("secret", "set", *options, "TOKEN")["name"] == "TOKEN"
    scope = SecretScope(pipeline.organization_id, pipeline.id if of_pipeline else None)
    assert [each.name for each in service.storage.secrets.names(scope)] == ["TOKEN"]
    assert [each["name"] for each in run_json("secret", "list", *options)] == ["TOKEN"]
    assert run_json("secret", "remove", *options, "TOKEN") == {"removed": "TOKEN"}
    assert run_json("secret", "list", *options) == []


def test_a_value_is_sent_only_to_the_server_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("CI_DAEMON_TOKEN")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"hunter2")))
    assert main(["secret", "set", "acme", "TOKEN"]) == 1
    assert "nobody is signed in at" in capsys.readouterr().err
