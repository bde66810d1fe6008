"""Rules for every command: help that explains it, and `--json` that prints one document."""

from __future__ import annotations

import inspect
import io
import json
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest

from actors.vms import ImageStore
from actors.vms.host import IdMap
from ci_daemon import command
from ci_daemon.command.support.catalog import HEADINGS
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.exit_codes import MEANINGS, ExitCode
from ci_daemon.command.support.session import Session
from ci_daemon.manual import pages
from ci_daemon.manual.reference import reference
from storage import (
    AuditEntry,
    JobState,
    NewBuild,
    NewEnvironment,
    NewMerge,
    NewNotification,
    NewPipeline,
    NewQuarantine,
    NewSchedule,
    NotificationKind,
    PreviewSpec,
    Storage,
    SystemClock,
    TestName,
)
from tests.culprits import broken
from tests.e2e.pipelines import one
from tests.git_servers.ssh import ssh_server
from tests.records import new_job
from tests.registry import entry, layer, registry, small_system
from tests.state import new_storage

ELSEWHERE = {
    "install": "tests/system",
    "uninstall": "tests/system",
    "serve": "test_service.py: it answers nobody on stdout",
    "logs": "tests/system: it takes a journal, and says a document a line",
    "submit": "test_submit.py",
    "artifact get": "tests/ci_daemon/remote",
    "artifact verify": "tests/ci_daemon/remote",
    "job files": "tests/e2e/builds/test_forks.py",
    "job get": "tests/e2e/builds/test_forks.py",
    "member remove": "tests/ci_daemon/remote",
    "member set": "tests/ci_daemon/remote",
    "invite accept": "tests/ci_daemon/remote",
    "invite create": "tests/ci_daemon/remote",
    "invite list": "tests/ci_daemon/remote",
    "invite revoke": "tests/ci_daemon/remote",
    "usage": "tests/ci_daemon/remote",
    "search": "tests/ci_daemon/remote",
    "login": "tests/ci_daemon/remote",
    "logout": "tests/ci_daemon/remote",
    "whoami": "tests/ci_daemon/remote",
    "context list": "tests/ci_daemon/remote",
    "context remove": "tests/ci_daemon/remote",
    "context show": "tests/ci_daemon/remote",
    "context use": "tests/ci_daemon/remote",
    "run": "tests/ci_daemon/local/test_run.py",
    "render": "tests/e2e/builds/test_render.py",
    "lint": "tests/ci_daemon/lint/test_command.py",
    "new": "tests/ci_daemon/new/test_new.py",
    "convert": "tests/ci_daemon/convert/test_samples.py",
    "debug": "tests/e2e: it is a shell",
    "mcp": "tests/ci_daemon/remote: it answers a protocol",
    "shell": "tests/e2e/builds/test_forks.py: it makes VMs",
    "test prove": "tests/e2e/builds/test_proofs.py: it makes VMs",
    "test cancel": "tests/e2e/builds/test_proofs.py: it makes VMs",
    "github bind": "test_github.py: it needs a GitHub",
    "github setup": "test_github.py: it needs a GitHub",
    "incus setup": "tests/fleet/test_setup.py: it needs an engine",
    "incus status": "tests/fleet/test_setup.py: it needs an engine",
    "mail test": "test_mail.py: it needs a mail server",
    "mail retry": "test_mail.py: it needs a mail server",
}
"""Commands that need more than a state directory, and their tests."""

CALLS = """
    init
    completion bash
    completion zsh
    completion fish
    config check
    config show
    doctor
    image build
    image list
    image pull {reference} --as pulled
    image default pulled
    image default debian:12
    image import imported {tar}
    image remove pulled
    image remove imported
    status
    top
    queue
    lease list
    lease kill --all
    audit
    console link
    console close
    drain
    resume
    cache list
    cache stats
    cache clear
    retention run --dry-run
    retention confirm
    claim
    user add bob@example.org --name Bob
    user list
    user link ada@example.org
    user link --owner
    mail queue
    org list
    org create New --owner ada@example.org
    org set acme --weight 2
    org rotate-key acme
    org key acme
    member add acme bob@example.org
    member list acme
    machine add acme deploy-bot
    machine list acme
    user remove bob@example.org
    token create ada@example.org
    token list ada@example.org
    token revoke {token}
    token create --machine acme/deploy-bot
    machine remove acme deploy-bot
    coupon create WELCOME 100
    coupon list
    coupon disable WELCOME
    ledger grant acme 100
    ledger list acme
    ledger refund acme 1 --note sorry
    ledger export acme
    ledger verify
    pipeline list acme
    pipeline show acme web
    pipeline edit acme web --fail-fast
    pipeline create acme Spare --repository https://example.org/spare.git
    pipeline delete acme spare --yes
    repo connect {repository} --org acme
    repo connect {server} --org acme --name acme/lib
    repo rotate-key {server} --org acme
    repo key {server} --org acme
    repo trust {server} --org acme
    repo hook {server} --org acme
    repo edit {server} --org acme --poll 30 --submodules
    merge-queue add {server} --org acme --branch topic --target main
    merge-queue list {server} --org acme
    merge-queue remove https://example.org/acme/web.git {entry} --org acme
    repo list
    repo show {repository} --org acme
    pipeline create acme Local --repository {repository}
    build start acme/local --ref main --input target=staging
    webhook list
    webhook show {delivery}
    webhook redeliver {delivery}
    repo remove {repository} --org acme
    schedule add acme web '30 4 * * *'
    schedule set acme web {schedule} --disable
    schedule list acme web
    schedule remove acme web {schedule}
    notify add acme web email --to-creator
    notify list acme web
    notify test {notification}
    notify deliveries {notification}
    notify redeliver {message}
    notify rotate {notification}
    notify set {notification} --disable
    notify remove {notification}
    artifact list acme/web/1
    job list acme/web/1
    job show acme/web/1 step
    build list acme/web
    build show acme/web/1
    build outputs acme/web/1 --job step
    build annotations acme/web/1 --level error
    build summaries acme/web/1
    build tests acme/web/1 --outcome failed
    build culprit acme/broken/2 --stop
    test proofs acme/web/1
    test quarantine acme/web unit::draws --days 7 --owner ada@example.org
    test quarantined acme/web
    test release acme/web {quarantined}
    preview list acme/web/1
    preview open acme/web/1/step
    preview end acme/web/1/step
    build coverage acme/web/1
    build coverage acme/web/1 --files
    build logs acme/web/1
    build approve acme/web/2
    build rebuild acme/web/1
    build open acme/web/1
    build cancel acme/web/1
    build force-finish acme/web/1 --state canceled --note stuck
    build watch acme/web/1
    job retry acme/web/1 step
    build force-finish acme/web/1 --state canceled --note stuck
    build retry acme/web/1
    environment create acme staging --approver admin --url https://example.org
    environment set acme staging --not-author --gate-seconds 3600
    environment list acme
    environment history acme production
    environment show acme production
    environment rollback acme production
    environment remove acme staging
    job approve acme/web/3 deploy --reason tested
    job reject acme/web/4 deploy
    secret set acme TOKEN
    secret set acme ELSEWHERE --from http --url https://secrets.example.org/token
    secret limit acme TOKEN --branch main
    secret list acme
    secret remove acme TOKEN
    registry login acme ghcr.io --username ci
    registry list acme
    registry logout acme ghcr.io
    backup {backup}
    --state-dir {restored} restore {backup}
"""
OTHER = "--state-dir {restored}"
CODES = {"status": {3}, "doctor": {0, 1}, "build watch": {3}}
CHANGE_NOTHING_HERE = {"init", "doctor", "lease kill", "retention run"}
"""Commands that leave an entry in the audit, but change nothing when called as here."""

THEIR_OWN_WORDS = {
    "build approve": "approveBuild",
    "build cancel": "cancelBuild",
    "build culprit": "stopCulpritSearch",
    "build force-finish": "forceFinishBuild",
    "build rebuild": "rebuildBuild",
    "build retry": "retryBuild",
    "build start": "startBuild",
    "job retry": "retryJob",
    "job approve": "approveJob",
    "job reject": "rejectJob",
    "environment create": "createEnvironment",
    "environment remove": "deleteEnvironment",
    "environment rollback": "rollBackEnvironment",
    "environment set": "updateEnvironment",
    "cache clear": "clearCaches",
    "coupon create": "createCoupon",
    "coupon disable": "disableCoupon",
    "ledger grant": "grantCredit",
    "ledger refund": "refundCredit",
    "token create --machine acme/deploy-bot": "createMachineAccountKey",
    "machine add": "createMachineAccount",
    "machine remove": "deleteMachineAccount",
    "member add": "addOrgMember",
    "org create": "createUserOrganization",
    "org rotate-key": "rotateDeployKey",
    "org set": "configureOrganization",
    "notify add": "createNotification",
    "notify redeliver": "redeliverNotification",
    "notify remove": "deleteNotification",
    "notify rotate": "rotateNotificationSecret",
    "notify set": "updateNotification",
    "notify test": "testNotification",
    "retention confirm": "confirmClock",
    "pipeline create": "createPipeline",
    "pipeline delete": "deletePipeline",
    "pipeline edit": "updatePipeline",
    "preview end": "endPreview",
    "schedule add": "createSchedule",
    "schedule remove": "deleteSchedule",
    "schedule set": "updateSchedule",
    "test quarantine": "quarantineTest",
    "test release": "releaseTest",
    "merge-queue add": "addToMergeQueue",
    "merge-queue remove": "removeFromMergeQueue",
    "repo connect": "connectPlainRepo",
    "repo edit": "configureRepo",
    "repo hook": "makeRepoHook",
    "repo remove": "removeRepo",
    "repo rotate-key": "rotateRepoKey",
    "repo trust": "trustRepoServer",
    "webhook redeliver": "redeliverReport",
    "registry login": "setRegistryLogin",
    "registry logout": "deleteRegistryLogin",
    "secret limit": "limitOrganizationSecret",
    "secret remove": "deleteOrganizationSecret",
    "secret set": "setOrganizationSecret",
    "token create": "createUserToken",
    "token revoke": "revokeUserToken",
    "console close": "endConsoleSessions",
    "console link": "createConsoleLink",
    "user add": "createUser",
    "user link": "createUserLink",
    "user link --owner": "createOwnerLink",
    "user remove": "removeUser",
}


def commands(at: click.Command, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that is not a group, with its words."""
    if isinstance(at, click.Group):
        for name, inner in at.commands.items():
            yield from commands(inner, *path, name)
    else:
        yield " ".join(path), at


COMMANDS = dict(commands(command.root_command()))
LINES = {words: text for texts in HEADINGS.values() for words, text in texts.items()}


def test_the_help_has_a_line_for_every_command_and_no_other():
    assert sorted(LINES) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_its_help_describes_it_and_each_option(name: str):
    it = COMMANDS[name]
    assert LINES[name].endswith(".")
    assert len(LINES[name]) <= 80
    assert it.help is not None
    assert it.help.split("\n\n")[0].endswith(".")
    options = [option for option in it.params if isinstance(option, click.Option) and not option.hidden]
    assert [option.name for option in options if not option.help] == []
    assert {"json", "quiet"} <= {option.name for option in options}
    choices = [each for option in it.params if isinstance(option.type, click.Choice) for each in option.type.choices]
    assert {type(each) for each in choices} <= {str}, "of an enum, click takes the names of its members"


@pytest.mark.parametrize("name", COMMANDS)
def test_its_function_takes_its_options(name: str):
    it = COMMANDS[name]
    assert it.callback is not None
    takes = inspect.signature(inspect.unwrap(it.callback)).parameters.values()
    given = {option.name for option in it.params if option.expose_value}
    named = {each.name for each in takes if each.kind is each.KEYWORD_ONLY}
    handed_on = any(each.kind is each.VAR_KEYWORD for each in takes)
    assert named < given if handed_on else named == given


def test_the_docs_have_the_reference_of_today():
    headings = {heading: [*texts] for heading, texts in HEADINGS.items()}
    expected = reference(pages(command.root_command(), LINES), headings, MEANINGS)
    assert (Path(__file__).parents[3] / "docs/commands.md").read_text() == expected, "run `make docs`"


def entries(state: Path) -> list[AuditEntry]:
    with closing(Storage.open(state, SystemClock())) as storage:
        return list(storage.audit.page(1000, None).rows)


def noted_as_they_should(name: str, line: str, noted: list[AuditEntry]) -> bool:
    """True if a command left its one entry in the audit, or none because it changes nothing."""
    it = COMMANDS[name]
    assert isinstance(it, CallerCommand)
    if it.reads or name in CHANGE_NOTHING_HERE:
        return noted == []
    action = THEIR_OWN_WORDS.get(line, THEIR_OWN_WORDS.get(name, name))
    return [(entry.action, entry.actor) for entry in noted] == [(action, Session().operator)] and bool(noted[0].origin)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    with_storage = new_storage(tmp_path / "state", SystemClock())
    ada = with_storage.users.create("ada@example.org", "Ada")
    acme = with_storage.organizations.create("Acme", "", ada.id)
    pipeline = with_storage.pipelines.create(acme.id, NewPipeline("web", "Web", "https://example.org/web.git", "main"))
    served = new_job(preview=PreviewSpec(8000, "serve").document)
    first = with_storage.builds.create(pipeline, NewBuild("main", "c0ffee", pipeline_ir=one("true")), [served])
    with_storage.previews.add(first, with_storage.jobs.of_build(first.id)[0], "a-disk")
    new = NewPipeline("broken", "Broken", "https://example.org/broken.git", "main")
    broken(with_storage, with_storage.pipelines.create(acme.id, new))
    of_fork = NewBuild("eve:main", "c0ffee", untrusted_origin="pull/1/7", approval_reason="eve is not a member")
    with_storage.builds.create(pipeline, of_fork, [new_job()])
    with_storage.environments.create(acme.id, NewEnvironment("production", approvers=("admin",)))
    for gated in range(4):
        new = NewBuild("main", "c0ffee", pipeline_ir=one("true"))
        deploys = with_storage.builds.create(pipeline, new, [new_job("deploy", environment="production")])
        (job,) = with_storage.jobs.of_build(deploys.id)
        with_storage.gates.ask(job.id, 3600)
        if gated >= 2:
            for before, after in ((JobState.PENDING, JobState.SCHEDULED), (JobState.SCHEDULED, JobState.PASSED)):
                assert with_storage.jobs.move(job.id, before, after)
    connected = with_storage.repositories.connect(acme.id, "https://example.org/acme/web.git", "acme/web", 60)
    with_storage.deliveries.receive("git", "push", "1", connected, b"")
    entry = with_storage.merge_queues.add(connected, NewMerge(branch="topic"), "ada@example.org")
    (tmp_path / "entry").write_text(entry.uuid)
    held = NewQuarantine(TestName("unit", "adds"), "", "ada@example.org", "", 7)
    held_id = with_storage.quarantine.add(pipeline.id, held, "ada@example.org").uuid
    (tmp_path / "quarantined").write_text(held_id)
    (tmp_path / "delivery").write_text(with_storage.deliveries.latest(1)[0].uuid)
    (tmp_path / "token").write_text(with_storage.tokens.create_api_key(ada.id, "for the test")[0].uuid)
    schedule = with_storage.schedules.create(pipeline.id, NewSchedule("0 5 * * *", "UTC", "main", None))
    (tmp_path / "schedule").write_text(schedule.uuid)
    hook = NewNotification(NotificationKind.WEBHOOK, ("build.finished",), "https://hooks.example.org/builds")
    notification, _ = with_storage.notifications.create(pipeline.id, hook)
    (tmp_path / "notification").write_text(notification.uuid)
    message = with_storage.notification_deliveries.add(notification.id, "build.finished", 1, "{}")
    (tmp_path / "message").write_text(message.uuid)
    with_storage.close()
    return tmp_path / "state"


def test_json_is_one_document(
    state: Path,
    tmp_path: Path,
    images_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    idmap = IdMap.of_caller()
    layers = small_system(ImageStore(images_dir, idmap).path("debian:12"), idmap)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "debian@12").symlink_to(images_dir / "debian@12")
    monkeypatch.setenv("CI_DAEMON_IMAGES_DIR", str(tmp_path / "images"))
    called = set()
    with registry(tmp_path / "registry") as served, ssh_server(tmp_path / "ssh") as ssh:
        words = {
            "reference": served.add("base:1", *layers),
            "tar": str(tmp_path / "root.tar"),
            "token": (tmp_path / "token").read_text(),
            "schedule": (tmp_path / "schedule").read_text(),
            "delivery": (tmp_path / "delivery").read_text(),
            "notification": (tmp_path / "notification").read_text(),
            "entry": (tmp_path / "entry").read_text(),
            "quarantined": (tmp_path / "quarantined").read_text(),
            "message": (tmp_path / "message").read_text(),
            "backup": str(tmp_path / "backup"),
            "restored": str(tmp_path / "restored"),
            "repository": str(tmp_path / "acme" / "web.git"),
            "server": ssh.url(Path("/acme/lib.git")),
        }
        (tmp_path / "acme" / "web.git").mkdir(parents=True)
        (tmp_path / "acme" / "web.git" / "HEAD").write_text("ref: refs/heads/main\n")
        (tmp_path / "root.tar").write_bytes(layer(entry("bin/sh")))
        for line in CALLS.strip().split("\n"):
            name = next(name for name in COMMANDS if f"{line.strip()} ".startswith((f"{name} ", f"{OTHER} {name} ")))
            arguments = shlex.split(line.format(**words))
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"hidden")))
            before = entries(state)
            code = command.main(["--state-dir", str(state), *arguments, "--json"])
            printed = capsys.readouterr()
            of_whom = tmp_path / "restored" if name == "restore" else state
            noted = [entry for entry in entries(of_whom) if entry not in before]
            assert noted_as_they_should(name, line.strip(), noted), f"{line}: {noted}"
            assert code in CODES.get(name, {0}), f"{line}: {printed.err}"
            json.loads(printed.out)
            assert code in set(ExitCode)
            called.add(name)
    assert called | ELSEWHERE.keys() == COMMANDS.keys()
