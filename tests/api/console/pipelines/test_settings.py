"""The settings of a pipeline, and the form that starts a build."""

from __future__ import annotations

import pytest

from storage import Role, SecretScope
from tests.api.console.browser import Browser
from tests.api.world import HELLO, Account, PipelinePath, World

PAGE = "/ada-example-org/pipelines/demo"
SETTINGS = f"{PAGE}/settings"


def form(page: str) -> str:
    return page[1:]


def test_a_person_starts_a_build(ada: Account, pipeline: PipelinePath):
    fields = {"commit": "c0ffee", "message": "By hand", "env": "A=1\nB=x=y\n", "pipeline_ir": HELLO}
    started = Browser.of(ada).send(PAGE, form(f"{PAGE}/builds"), branch="main", **fields)
    assert started.headers["Location"] == f"./../../..{PAGE}/builds/1"
    build = ada.world.storage.builds.find("ada-example-org", "demo", 1)
    assert build is not None
    assert (build.source, build.message) == ("ui", "By hand")
    assert ada.world.storage.builds.env(build.id) == {"A": "1", "B": "x=y"}
    assert "a person, here" in Browser.of(ada).get(f"{PAGE}/builds/1").text


@pytest.mark.parametrize("env", ["A", "1A=x"])
def test_a_malformed_variable_starts_nothing(ada: Account, pipeline: PipelinePath, env: str):
    refused = Browser.of(ada).send(PAGE, form(f"{PAGE}/builds"), branch="m", commit="c", env=env, pipeline_ir=HELLO)
    assert refused.status_code == 422
    assert "go back in your browser" in refused.text
    assert ada.world.storage.builds.find("ada-example-org", "demo", 1) is None


def test_a_rejected_plan_leads_to_its_build(ada: Account, pipeline: PipelinePath):
    browser = Browser.of(ada)
    fields = {"commit": "c0ffee", "branch": "main", "pipeline_ir": '{"version": "0", "steps": 7}'}
    started = browser.send(PAGE, form(f"{PAGE}/builds"), **fields)
    assert (started.status_code, started.headers["Location"]) == (303, f"./../../..{PAGE}/builds/1")
    shown = browser.get(f"{PAGE}/builds/1").text
    assert "Why it failed" in shown
    assert "At steps of the pipeline as JSON" in shown
    assert "rejected, " in browser.get("/ada-example-org/audit").text


def test_settings_are_changed(ada: Account, pipeline: PipelinePath):
    browser = Browser.of(ada)
    fields = {"name": "New", "default_branch": "dev", "visibility": "public", "artifacts_public": "yes"}
    fields["followers"] = ada.path.rpartition("/")[2]
    token = browser.fields(SETTINGS, form(f"{SETTINGS}/update"))["form_token"]
    assert browser.post(f"{SETTINGS}/update", {**fields, "form_token": token}).status_code == 303
    found = ada.client.simulate_get(f"{ada.path}/pipelines/demo").json
    names = ("name", "default_branch", "visibility", "allow_manual", "description", "artifacts_public", "followers")
    changed = {name: found[name] for name in names}
    assert changed == {
        "name": "New",
        "default_branch": "dev",
        "visibility": "public",
        "allow_manual": False,
        "description": None,
        "artifacts_public": True,
        "followers": ["ada-example-org"],
    }
    assert '/badges/ada-example-org/demo.svg"' in browser.get(SETTINGS).text


@pytest.mark.parametrize(("chosen", "kept"), [("yes", True), ("no", False), ("", None)])
def test_a_strict_shell_is_chosen_in_the_form(ada: Account, pipeline: PipelinePath, chosen: str, kept: bool | None):
    browser = Browser.of(ada)
    fields = {"name": "New", "default_branch": "dev", "visibility": "private", "strict_shell": chosen}
    assert browser.send(SETTINGS, form(f"{SETTINGS}/update"), **fields).status_code == 303
    assert ada.client.simulate_get(f"{ada.path}/pipelines/demo").json["strict_shell"] is kept
    assert f'<option value="{chosen}" selected>' in browser.get(SETTINGS).text.partition('id="strict_shell"')[2]


def test_schedules_and_secrets_come_and_go(ada: Account, pipeline: PipelinePath):
    browser, storage = Browser.of(ada), ada.world.storage
    added = browser.send(SETTINGS, form(f"{PAGE}/schedules"), cron="5 4 * * *", timezone="", branch="")
    assert added.headers["Location"].endswith("/pipelines/demo/settings#schedules")
    (schedule,) = storage.schedules.page(1, 9, None).rows
    assert (schedule.cron, schedule.branch) == ("5 4 * * *", "main")
    browser.send(SETTINGS, form(f"{PAGE}/schedules/{schedule.uuid}/delete"))
    assert storage.schedules.page(1, 9, None).rows == ()

    set_ = browser.send(SETTINGS, form(f"{PAGE}/secrets"), name="TOKEN", value="s3cr3t value")
    assert set_.status_code == 303
    assert "s3cr3t" not in browser.get(SETTINGS).text
    assert [secret.name for secret in storage.secrets.names(SecretScope(ada.org_id, 1))] == ["TOKEN"]
    browser.send(SETTINGS, form(f"{PAGE}/secrets/TOKEN/delete"))
    assert storage.secrets.names(SecretScope(ada.org_id, 1)) == []


def test_a_member_sees_settings_and_changes_none(world: World, ada: Account, bob: Account, pipeline: PipelinePath):
    assert Browser.of(bob).get(SETTINGS).status_code == 404
    bob.join(ada, Role.MEMBER)
    browser = Browser.of(bob)
    assert "/settings/update" not in browser.get(SETTINGS).text
    token = browser.fields("/account", "account/profile")["form_token"]
    for path in (f"{SETTINGS}/update", f"{SETTINGS}/delete", f"{PAGE}/secrets", f"{PAGE}/schedules"):
        refused = browser.post(path, {"form_token": token, "name": "X", "value": "x", "cron": "* * * * *"})
        assert (refused.status_code, "<h1>Forbidden</h1>" in refused.text) == (403, True)
    assert Browser(world).get(SETTINGS).status_code == 303


def test_a_pipeline_is_deleted(ada: Account, pipeline: PipelinePath):
    browser = Browser.of(ada)
    deleted = browser.send(SETTINGS, form(f"{SETTINGS}/delete"))
    assert deleted.headers["Location"] == "./../../../../ada-example-org"
    assert browser.get(PAGE).status_code == 404


def test_a_command_for_tests_is_set_and_emptied_in_the_form(ada: Account, pipeline: PipelinePath):
    browser = Browser.of(ada)
    fields = {"name": "New", "default_branch": "dev", "visibility": "private"}
    for given, kept in (("rspec -e {tests}", "rspec -e {tests}"), (" ", None)):
        sent = browser.send(SETTINGS, form(f"{SETTINGS}/update"), **fields, test_command=given)
        assert sent.status_code == 303
        assert ada.client.simulate_get(f"{ada.path}/pipelines/demo").json["test_command"] == kept
        assert f'name="test_command" value="{kept or ""}"' in browser.get(SETTINGS).text
