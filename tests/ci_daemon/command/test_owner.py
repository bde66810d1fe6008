"""The host owner's commands for organizations, pipelines and builds."""

from __future__ import annotations

import json

import pytest

from storage import (
    Build,
    BuildState,
    JobState,
    LedgerSource,
    NewBuild,
    Pipeline,
    Storage,
)
from tests.ci_daemon.conftest import Run, RunJson
from tests.records import assigned, new_job, new_pipeline
from tests.state import run_sql

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def pipeline(storage: Storage) -> Pipeline:
    return new_pipeline(storage, email="ada@example.org")


def built(storage: Storage, pipeline: Pipeline, branch: str = "main") -> Build:
    jobs = [new_job(key) for key in ("lint", "test")]
    return storage.builds.create(pipeline, NewBuild(branch, COMMIT), jobs)


def test_an_organization_is_given_a_weight_and_fails_fast(storage: Storage, pipeline: Pipeline, run_json: RunJson):
    assert run_json("org", "set", "acme", "--weight", "3")["weight"] == 3
    assert run_json("org", "set", "acme", "--fail-fast")["fail_fast"] is True
    acme = next(each for each in run_json("org", "list") if each["slug"] == "acme")
    assert (acme["weight"], acme["fail_fast"], acme["balance_cents"]) == (3, True, 0)
    assert storage.pipelines.fails_fast(pipeline.id)
    assert run_json("org", "set", "acme", "--no-fail-fast")["fail_fast"] is False


def test_an_organization_is_created_with_its_owner(storage: Storage, pipeline: Pipeline, run_json: RunJson):
    made = run_json("org", "create", "Ümläut & Co", "--owner", "Ada@example.org", "--url", "https://umlaut.example")
    assert {name: made[name] for name in ("slug", "name", "url", "owner")} == {
        "slug": "umlaut-co",
        "name": "Ümläut & Co",
        "url": "https://umlaut.example",
        "owner": "ada@example.org",
    }
    assert run_json("member", "list", "umlaut-co")[0]["role"] == "owner"
    assert run_json("org", "create", "acme", "--owner", "ada@example.org")["slug"] == "acme-2"
    acts = [(entry.action, entry.subject, entry.organization) for entry in storage.audit.page(10, None).rows]
    assert acts == [
        ("createUserOrganization", "ada@example.org/acme-2", "acme-2"),
        ("createUserOrganization", "ada@example.org/umlaut-co", "umlaut-co"),
    ]


def test_members_are_added_and_listed(storage: Storage, pipeline: Pipeline, run_json: RunJson):
    storage.users.create("bob@example.org", "Bob")
    assert run_json("member", "add", "acme", "Bob@example.org", "--role", "admin")["role"] == "admin"
    assert [(each["email"], each["role"]) for each in run_json("member", "list", "acme")] == [
        ("ada@example.org", "owner"),
        ("bob@example.org", "admin"),
    ]


def test_a_user_is_removed_unless_others_need_their_ownership(
    storage: Storage, pipeline: Pipeline, run: Run, run_json: RunJson, capsys: pytest.CaptureFixture[str]
):
    storage.users.create("bob@example.org", "Bob")
    build = built(storage, pipeline)
    run_json("member", "add", "acme", "bob@example.org")
    assert run("user", "remove", "ada@example.org") == 1
    assert "others belong to acme, which ada@example.org alone owns" in capsys.readouterr().err
    assert run_json("user", "remove", "bob@example.org") == {"removed": "bob@example.org", "canceled_builds": 0}
    assert run_json("user", "remove", "ada@example.org")["canceled_builds"] == 1
    assert run_json("user", "list") == []
    assert storage.builds.to_cancel() == [build.id]


def test_a_pipeline_fails_fast(storage: Storage, pipeline: Pipeline, run_json: RunJson):
    assert run_json("pipeline", "edit", "acme", "web", "--fail-fast")["fail_fast"] is True
    assert [(each["slug"], each["fail_fast"]) for each in run_json("pipeline", "list", "acme")] == [("web", True)]
    assert storage.pipelines.fails_fast(pipeline.id)
    assert run_json("pipeline", "edit", "acme", "web", "--no-fail-fast")["fail_fast"] is False


def test_settings_of_triggers_are_set_and_left_to_the_next_unit(
    storage: Storage, pipeline: Pipeline, run: Run, run_json: RunJson, capsys: pytest.CaptureFixture[str]
):
    given = ("--cancel-superseded", "all", "--fork-approval", "always", "--fork-secrets", "no", "--provider", "qemu")
    org = run_json("org", "set", "acme", *given)
    assert (org["cancel_superseded"], org["fork_approval"], org["fork_secrets"]) == ("all", "always", False)
    assert org["provider"] == "qemu"
    assert storage.pipelines.cancel_superseded(pipeline.id) == "all"
    run_json("pipeline", "edit", "acme", "web", "--cancel-superseded", "branches")
    assert storage.pipelines.cancel_superseded(pipeline.id) == "branches"
    names = "cancel superseded", "fork approval", "fork secrets", "provider", "strict shell", "find culprits"
    words = [word for name in names for word in (f"--{name.replace(' ', '-')}", "default")]
    assert run("org", "set", "acme", *words) == 0
    said = f"acme: weight 1, fail fast off, {', '.join(f'{name} default' for name in names)}\n"
    assert capsys.readouterr().out.endswith(said)
    assert run_json("pipeline", "edit", "acme", "web", "--cancel-superseded", "default")["cancel_superseded"] is None
    assert storage.pipelines.cancel_superseded(pipeline.id) is None


def test_a_strict_shell_is_chosen_and_left_to_the_next_unit(pipeline: Pipeline, run_json: RunJson):
    for command in (("org", "set", "acme"), ("pipeline", "edit", "acme", "web")):
        for given, kept in (("yes", True), ("no", False), ("default", None)):
            assert run_json(*command, "--strict-shell", given)["strict_shell"] is kept


def test_a_pipeline_gets_a_concurrency_group(storage: Storage, pipeline: Pipeline, run: Run, run_json: RunJson):
    words = ("--concurrency-group", "deploy {branch}", "--concurrency-limit", "2")
    changed = run_json("pipeline", "edit", "acme", "web", *words)
    assert (changed["concurrency_group"], changed["concurrency_limit"]) == ("deploy {branch}", 2)
    built(storage, pipeline)
    assert run("pipeline", "edit", "acme", "web", *words, "--no-concurrency-group") == 2
    assert run_json("pipeline", "edit", "acme", "web", "--no-concurrency-group")["concurrency_group"] is None


def test_a_pipeline_gets_a_command_for_its_tests(pipeline: Pipeline, run: Run, run_json: RunJson):
    words = ("--test-command", "rspec -e {tests}")
    assert run_json("pipeline", "edit", "acme", "web", *words)["test_command"] == "rspec -e {tests}"
    assert run("pipeline", "edit", "acme", "web", *words, "--no-test-command") == 2
    assert run_json("pipeline", "edit", "acme", "web", "--no-test-command")["test_command"] is None


def test_builds_are_listed_newest_first_and_shown_with_jobs(
    storage: Storage, pipeline: Pipeline, run_json: RunJson, run: Run, capsys: pytest.CaptureFixture[str]
):
    for branch in ("main", "[/oops]\x1b[31m"):
        built(storage, pipeline, branch)
    assert [each["number"] for each in run_json("build", "list", "acme/web")] == [2, 1]
    assert [each["number"] for each in run_json("build", "list", "acme/web", "--limit", "1")] == [2]
    shown = run_json("build", "show", "acme/web/1")
    assert (shown["name"], shown["state"]) == ("acme/web/1", "scheduled")
    assert [(each["key"], each["state"]) for each in shown["jobs"]] == [("lint", "scheduled"), ("test", "scheduled")]
    assert run("build", "list", "acme/web") == run("build", "show", "acme/web/2") == 0
    text = capsys.readouterr().out
    assert (text.count(COMMIT[:10]), text.count(COMMIT[:11])) == (3, 0)
    assert shown["commit"] == COMMIT
    assert text.count("[/oops] [31m") == 2
    assert "\x1b" not in text


def test_a_cancel_is_noted_for_the_service(
    storage: Storage, pipeline: Pipeline, run: Run, capsys: pytest.CaptureFixture[str]
):
    build = built(storage, pipeline)
    assert run("build", "cancel", "acme/web/1") == 0
    assert "will be canceled when the service runs: start it with `ci-daemon serve`" in capsys.readouterr().out
    assert storage.builds.to_cancel() == [build.id]


def test_a_build_is_ended_by_hand_and_that_is_audited(
    storage: Storage, pipeline: Pipeline, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("USER", "root")
    monkeypatch.setenv("SUDO_USER", "ada")
    build = built(storage, pipeline)
    lint, _ = storage.jobs.of_build(build.id)
    assigned(storage, lint)
    ended = run_json("build", "force-finish", "acme/web/1", "--state", "failed", "--note", "its VM hangs")
    assert (ended["state"], ended["error_code"], ended["error_message"]) == ("failed", "internal_error", "its VM hangs")
    assert [job.state for job in storage.jobs.of_build(build.id)] == [JobState.FAILED, JobState.CANCELED]
    assert storage.leases.live() == []
    (entry,) = run_json("audit")
    assert (entry["actor"], entry["action"], entry["subject"], entry["note"]) == (
        "ada",
        "forceFinishBuild",
        "acme/web/1",
        "failed: its VM hangs, box",
    )


@pytest.mark.parametrize("command", ["cancel", "force-finish"])
def test_a_finished_build_is_refused(
    storage: Storage, pipeline: Pipeline, run: Run, capsys: pytest.CaptureFixture[str], command: str
):
    storage.force_finish.end(built(storage, pipeline).id, BuildState.CANCELED, actor="ada", note="done")
    more = ("--state", "failed", "--note", "again") if command == "force-finish" else ()
    assert run("build", command, "acme/web/1", *more) == 1
    assert "build acme/web/1 is canceled already: nothing to" in capsys.readouterr().err


def test_a_build_to_render_is_rebuilt_for_the_service(storage: Storage, pipeline: Pipeline, run_json: RunJson):
    storage.renders.begin(pipeline, NewBuild("main", COMMIT, source_archive=b"an archive"), None)
    again = run_json("build", "rebuild", "acme/web/1")
    assert (again["number"], again["rebuild_of"], again["state"]) == (2, 1, "scheduled")
    repeated = storage.builds.by_number(pipeline.id, 2)
    assert repeated is not None
    assert (repeated.source, repeated.created_by, storage.renders.pending(repeated.id)) == ("cli", None, True)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (
            ["build", "show", "acme"],
            1,
            '"acme" is not the name of a build: write ORG/PIPELINE/NUMBER, as in acme/web/12',
        ),
        (["build", "show", "acme/web/²"], 1, "is not the name of a build"),
        (["build", "show", "acme/web/7"], 1, 'there is no build "7": `ci-daemon build list ORG/PIPELINE` shows all'),
        (["build", "list", "acme/api"], 1, 'there is no pipeline "api": `ci-daemon pipeline list ORG` shows all'),
        (["build", "list", "nobody/api"], 1, 'there is no organization "nobody": `ci-daemon org list` shows yours'),
        (["org", "create", "!?", "--owner", "ada@example.org"], 1, "name: expected at least one letter a-z or digit"),
        (["org", "create", "New", "--owner", "eve@example.org"], 1, "there is no user eve@example.org"),
        (["org", "create", "New"], 2, "--owner"),
        (["org", "create", "a\nb", "--owner", "ada@example.org"], 2, "give 1 to 255 characters on one line"),
        (["org", "create", " ", "--owner", "ada@example.org"], 2, "give 1 to 255 characters on one line"),
        (["org", "create", "New", "--owner", "ada@example.org", "--url", "u" * 256], 2, "give 1 to 255 characters"),
        (["org", "set", "acme"], 2, "give at least one setting"),
        (["org", "set", "acme", "--weight", "0"], 2, "--weight"),
        (["member", "add", "acme", "ada@example.org"], 1, "ada@example.org is a member already"),
        (["member", "add", "acme", "eve@example.org"], 1, "there is no user eve@example.org"),
        (["member", "add", "acme", "ada@example.org", "--role", "king"], 2, "--role"),
        (["pipeline", "edit", "acme", "web"], 2, "--fail-fast"),
        (["pipeline", "edit", "acme", "web", "--concurrency-limit", "0"], 2, "--concurrency-limit"),
        (["build", "approve", "acme/web/1"], 1, 'there is no build "1"'),
        (["build", "force-finish", "acme/web/1", "--state", "passed", "--note", "x"], 2, "--state"),
        (["build", "force-finish", "acme/web/1", "--state", "failed"], 2, "--note"),
        (["build", "force-finish", "acme/web/1", "--state", "failed", "--note", " "], 2, "not all of them spaces"),
    ],
)
def test_invalid_arguments_are_refused_with_the_reason(
    pipeline: Pipeline, run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, sentence: str
):
    assert run(*arguments) == code
    assert sentence in capsys.readouterr().err


def test_the_ledger_is_proved(
    storage: Storage, pipeline: Pipeline, run: Run, run_json: RunJson, capsys: pytest.CaptureFixture[str]
):
    storage.ledger.append(pipeline.organization_id, 500, LedgerSource.ADMIN_GRANT, None)
    assert run_json("ledger", "verify") == []
    run_sql(storage.directory, "UPDATE organizations SET balance_cents = 7 WHERE slug = 'acme'")
    assert run("ledger", "verify", "--json") == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == [
        {"organization": "acme", "problem": "the balance is kept as 7 cents, the entries sum up to 500"}
    ]
    assert "the ledger has 1 discrepancy" in printed.err
