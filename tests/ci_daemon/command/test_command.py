from __future__ import annotations

import errno
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from ci_daemon.command import main
from ci_daemon.command.support.errors import EXPECTED_ERRORS, error_message, is_expected
from ci_daemon.command.support.session import Session
from storage import Storage, SystemClock

Run = Callable[..., int]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def run(state: Path) -> Run:
    """Run `ci-daemon` on a state directory that does not exist yet."""

    def run(*arguments: str) -> int:
        return main(["--state-dir", str(state), *arguments])

    return run


@pytest.fixture
def made(run: Run, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `ci-daemon` on a new state directory."""
    assert run("init") == 0
    capsys.readouterr()
    return run


def test_help_lists_every_command_under_plain_headings(capsys: pytest.CaptureFixture[str]):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for heading in ("Set up:", "See:", "Run:", "People and money:", "Projects:", "Builds:"):
        assert f"\n{heading}\n" in out
    for command in ("init", "doctor", "image build", "serve", "status", "lease kill", "user add", "ledger grant"):
        assert f"\n  {command} " in out


def test_no_command_shows_the_help_with_exit_code_2(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 2
    assert "Set up:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["statsu"], "No such command 'statsu'. Did you mean 'status'? See `ci-daemon --help`"),
        (["github", "setup", "--port"], "Option '--port' requires an argument: see `ci-daemon github setup --help`"),
        (["queue", "--limit", "x"], "Invalid value for '--limit': 'x' is not a whole number: see"),
        (["status", "--jsn"], "No such option '--jsn'"),
        (["user", "add", "ada@example.org"], "Missing option '--name': see `ci-daemon user add --help`"),
        (["user", "add", "ada", "--name", "Ada"], '"ada" is not an e-mail address'),
        (["user", "add", f"{'a' * 250}@b.org", "--name", "Ada"], "is not an e-mail address"),
        (["user", "add", "ada@example.org", "--name", " "], "give 1 to 255 characters on one line"),
        (["user", "add", "ada@example.org", "--name", "a" * 256], "give 1 to 255 characters on one line"),
        (["user", "add", "ada@example.org", "--name", "Ada\x1b[31m"], "give 1 to 255 characters on one line"),
        (["ledger", "grant", "org", "1", "--note", "a" * 10_001], "give 1 to 10000 characters"),
        (["ledger", "grant", "org", "0"], "0 is not in the range"),
        (["ledger", "grant", "org", "ten"], "'ten' is not a whole number"),
        (["build", "force-finish", "a/b/1"], "Missing option '--state'. Choose from: failed, canceled: see"),
        (["lease", "kill"], "give either the ID of a lease or --all"),
        (["lease", "kill", "x", "--all"], "give either the ID of a lease or --all"),
        (["serve", "--listen", "nowhere"], "listen must be HOST:PORT"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_exit_code_2(
    run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
):
    assert run(*arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("ci-daemon: ")
    assert message in err
    assert err.count("\n") == 1


def test_init_makes_a_private_state_directory(run: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    assert run("init") == 0
    assert capsys.readouterr().out.startswith(f"created {state}\nnext: ")
    assert state.stat().st_mode & 0o777 == 0o700
    Storage.open(state, SystemClock()).close()


def test_init_again_changes_nothing(made: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    key = (state / "secret.key").read_bytes()
    assert made("--json", "init") == 0
    assert json.loads(capsys.readouterr().out) == {"state_dir": str(state), "made": False}
    assert (state / "secret.key").read_bytes() == key


def test_init_keeps_a_configuration_and_images_that_are_there(run: Run, state: Path):
    (state / "images").mkdir(parents=True)
    (state / "ci-daemon.toml").write_text("")
    assert run("init") == 0


def test_init_leaves_other_peoples_directories_alone(run: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    state.mkdir()
    (state / "thesis.tex").write_text("")
    assert run("init") == 1
    assert "contains other files (thesis.tex)" in capsys.readouterr().err
    assert [path.name for path in state.iterdir()] == ["thesis.tex"]


def test_init_over_a_file_is_refused(run: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    state.write_text("")
    assert run("init") != 0
    assert str(state) in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["status"], ["lease", "list"], ["user", "add", "a@b.c", "--name", "A"]])
def test_a_missing_state_directory_names_the_command_to_run(
    run: Run, state: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
):
    assert run(*arguments) == 1
    assert capsys.readouterr().err == (
        f"ci-daemon: {state} is not initialized: run `ci-daemon --state-dir {state} init`\n"
    )


def test_a_command_of_the_box_elsewhere_names_the_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("ci_daemon.command.DEFAULT_STATE_DIR", tmp_path / "none")
    assert main(["user", "list"]) == 1
    assert "works only on the box, the host of the service, and no service is installed here" in capsys.readouterr().err


@pytest.mark.parametrize("place", [0, 1, 2, 5])
def test_user_add_prints_one_document_for_scripts(
    made: Run, state: Path, capsys: pytest.CaptureFixture[str], place: int
):
    words = ["user", "add", "ada@example.org", "--name", "Ada"]
    assert made(*words[:place], "--json", *words[place:]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"uuid", "email", "personal_org_slug", "token"}
    storage = Storage.open(state, SystemClock())
    try:
        caller = storage.tokens.caller(answer["token"])
        assert caller is not None
        assert (caller.user.uuid, caller.user.email) == (answer["uuid"], "ada@example.org")
        assert caller.user.personal_org_slug == answer["personal_org_slug"] == "ada-example-org"
    finally:
        storage.close()


def test_a_second_user_of_one_address_is_refused(made: Run, capsys: pytest.CaptureFixture[str]):
    assert made("user", "add", "ada@example.org", "--name", "Ada") == 0
    assert "API key, shown only once: ci_" in capsys.readouterr().out
    assert made("user", "add", "ADA@example.org", "--name", "Ada") == 1
    assert "there is a user with the e-mail address ada@example.org already" in capsys.readouterr().err


def test_ledger_grant_adds_to_the_balance(made: Run, capsys: pytest.CaptureFixture[str]):
    made("user", "add", "ada@example.org", "--name", "Ada")
    assert made("ledger", "grant", "ada-example-org", "500", "--note", "welcome") == 0
    capsys.readouterr()
    assert made("ledger", "grant", "ada-example-org", "25", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer.pop("id")
    assert answer == {"organization": "ada-example-org", "amount_cents": 25, "balance_cents": 525}


def test_a_grant_to_a_missing_organization_is_refused(made: Run, capsys: pytest.CaptureFixture[str]):
    assert made("ledger", "grant", "nobody", "500") == 1
    assert 'there is no organization "nobody"' in capsys.readouterr().err


def test_status_of_a_service_that_does_not_run_is_exit_code_3(
    made: Run, state: Path, capsys: pytest.CaptureFixture[str]
):
    assert made("status") == 3
    assert "does not run: start it with `ci-daemon serve`" in capsys.readouterr().out
    assert made("status", "--json") == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["state_dir"], answer["pid"], answer["url"], answer["answers"]) == (str(state), None, None, False)
    assert (answer["builds"], answer["leases"], answer["vms"], answer["queued_jobs"]) == ({}, {}, {}, 0)
    assert (answer["drained_since"], answer["disk_low"], answer["errors"]) == (None, False, [])
    assert (answer["balances_cents"], answer["overdrawn_organizations"]) == (0, 0)


def test_an_installed_service_is_started_by_its_unit(tmp_path: Path):
    unit = tmp_path / "ci-daemon.service"
    assert Session(unit=unit).start_command == "`ci-daemon serve`"
    unit.touch()
    assert Session(unit=unit).start_command == "`systemctl start ci-daemon`"
    assert Session(tmp_path, unit=unit).start_command == "`ci-daemon serve`"


def test_the_caller_is_known_after_root_becomes_the_owner(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 0)
    session = Session()
    monkeypatch.setattr("os.getuid", lambda: 65534)
    monkeypatch.setenv("USER", "ci-daemon")
    assert session.operator == "root"


@pytest.mark.parametrize("name", sorted(EXPECTED_ERRORS))
def test_an_expected_error_is_the_class_of_its_name(name: str):
    module, _, kind = name.rpartition(".")
    found = getattr(import_module(module), kind)
    assert is_expected(found.__new__(found))


def test_a_subclass_of_an_expected_error_is_expected():
    assert is_expected(FileNotFoundError())
    assert not is_expected(ValueError())


def test_an_error_of_the_command_imports_no_engine(made: Run, state: Path):
    """It is told as fast as an answer: the exceptions of other commands are not imported for it."""
    code = (
        "import sys; from ci_daemon.command import main; main(sys.argv[1:]);"
        " print(*{'actors.root', 'actors.vms', 'ci_daemon.install', 'ci_daemon.doctor'} & {*sys.modules})"
    )
    argv = [sys.executable, "-c", code, "--state-dir", str(state), "secret", "list", "nowhere"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert (ended.stdout.strip(), "nowhere" in ended.stderr) == ("", True)


@pytest.mark.parametrize(("name", "message"), [("/srv/a", "/srv/a"), (None, "the output")])
def test_a_full_disk_is_reported_with_the_remedy(name: str | None, message: str):
    fault = OSError(errno.ENOSPC, "No space left on device", name)
    assert error_message(fault) == f"{message}: the disk is full: free some space, and run the same command again"


@pytest.mark.parametrize("arguments", [["ledger", "grant", "\udcff", "5"], ["user", "remove", "ada\udcff@example.org"]])
def test_a_name_that_is_not_utf_8_is_refused(made: Run, capsys: pytest.CaptureFixture[str], arguments: list[str]):
    assert made(*arguments) == 1
    assert "is not valid UTF-8" in capsys.readouterr().err


def test_a_path_that_is_not_utf_8_is_escaped(tmp_path: Path):
    command = [sys.executable, "-m", "ci_daemon", "--state-dir", bytes(tmp_path) + b"/\xff", "config", "check"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"/\\udcff is not a state directory yet" in done.stdout


def test_streams_that_the_caller_has_closed_lead_to_nothing(made: Run, state: Path):
    command = shlex.join([sys.executable, "-m", "ci_daemon", "--state-dir", str(state)])
    for line in (f"{command} user list >&-", f"{command} user list 2>&-", f"{command} coupon list <&- >&- 2>&-"):
        assert subprocess.run(["sh", "-c", line], check=False).returncode == 0, line
    done = subprocess.run(["sh", "-c", f"{command} secret set any A <&-"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'ci-daemon: there is no organization "any": `ci-daemon org list` shows yours\n'


def test_lists_of_nothing_say_so(made: Run, capsys: pytest.CaptureFixture[str]):
    assert made("lease", "list") == 0
    assert capsys.readouterr().out == "no VM is leased\n"
    assert made("lease", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_wrong_configuration_stops_every_command_that_reads_it(
    made: Run, state: Path, capsys: pytest.CaptureFixture[str]
):
    (state / "ci-daemon.toml").write_text("[http]\nlisten = 8800\n")
    assert made("status") == 1
    assert capsys.readouterr().err == (
        f"ci-daemon: {state}/ci-daemon.toml:2: http.listen: expected a string, got 8800\n"
    )


def test_the_state_directory_may_come_from_the_environment(tmp_path: Path):
    environ = {**os.environ, "CI_DAEMON_STATE_DIR": str(tmp_path / "there")}
    subprocess.run([sys.executable, "-m", "ci_daemon", "init"], env=environ, check=True, capture_output=True)
    assert (tmp_path / "there" / "ci-daemon.sqlite3").exists()


def test_a_closed_pipe_ends_the_output_quietly(made: Run, state: Path):
    argv = [sys.executable, "-m", "ci_daemon", "--state-dir", str(state), "status"]
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(argv, stdout=write, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(write)
    assert done.stderr == b""


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("ci-daemon, version ")


def test_output_that_cannot_be_written_is_an_error(made: Run, state: Path):
    """The process frees no memory at its end, but still writes what it has buffered."""
    argv = [sys.executable, "-m", "ci_daemon", "--state-dir", str(state), "status"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("ci-daemon: the output: the disk is full")


def test_the_process_has_the_exit_code_of_the_command(state: Path):
    argv = [sys.executable, "-m", "ci_daemon", "--state-dir", str(state), "status"]
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 1
    assert subprocess.run([*argv, "--no-such"], capture_output=True, check=False).returncode == 2
