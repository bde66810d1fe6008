"""`ci-daemon repo` and a repository that has a hook already."""

from __future__ import annotations

import shlex
import socket
import subprocess
from pathlib import Path

import pytest

from ci_daemon.doctor.service import hooks
from storage import SystemClock
from tests.ci_daemon.conftest import RunJson
from tests.git_repository import GitRepository
from tests.processes import serving_at
from tests.records import new_owner
from tests.state import new_storage, run_sql

OWN_HOOK = "#!/bin/sh\necho our own hook read $(wc -l) line"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    storage = new_storage(tmp_path / "state", SystemClock())
    new_owner(storage)
    storage.close()
    return tmp_path / "state"


def test_a_hook_that_is_there_stays_and_gets_one_line(
    run_json: RunJson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its last line may lack an end, it may read the input itself, and nobody may listen."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv("CI_DAEMON_HTTP_LISTEN", f"127.0.0.1:{free.getsockname()[1]}")
    repository = GitRepository(tmp_path)
    hook = repository.bare / "hooks" / "post-receive"
    hook.write_text(OWN_HOOK)
    hook.chmod(0o755)
    connected = run_json("repo", "connect", str(repository.bare), "--org", "ada-example-org")
    assert (connected["hook"], hook.read_text()) == (False, OWN_HOOK)
    again = run_json("repo", "hook", str(repository.bare), "--org", "ada-example-org")
    for script in (connected["hook_script"], again["hook_script"]):
        subprocess.run(("sh", "-ec", script), cwd=repository.bare, check=True)
    assert hook.read_text().startswith(f"{OWN_HOOK}\n")
    assert hook.read_text().count("/webhooks/git") == 1
    token = repository.bare / "ci-daemon.token"
    assert token.stat().st_mode & 0o077 == 0
    assert token.read_text().split()[-1] in again["hook_script"]

    repository.commit("Begin")
    command = ("git", "push", "origin", "main")
    seen = subprocess.run(command, cwd=repository.path, check=True, capture_output=True, text=True).stderr
    assert "remote: our own hook read 1 line" in seen
    assert "remote: ci-daemon was not told of this push" in seen


def test_an_installed_hook_is_not_printed(run_json: RunJson, tmp_path: Path):
    repository = GitRepository(tmp_path)
    connected = run_json("repo", "connect", str(repository.bare), "--org", "ada-example-org")
    assert connected["hook"]
    assert "hook_script" not in connected


def test_connecting_records_the_heads_of_then(run_json: RunJson, tmp_path: Path, state: Path):
    """Otherwise a push that follows at once would be taken for what was there before."""
    repository = GitRepository(tmp_path)
    commit = repository.commit()
    repository.push("main")
    run_json("repo", "connect", str(repository.bare), "--org", "ada-example-org")
    assert run_sql(state, "SELECT ref, commit_sha FROM repository_heads") == [("refs/heads/main", commit)]


def test_a_hook_has_the_address_where_the_service_answers(run_json: RunJson, tmp_path: Path, state: Path):
    """It may run by `serve --listen`; that the hook is ours is seen once it has stopped, too."""
    repository, org = GitRepository(tmp_path), ("--org", "ada-example-org")
    hook, here = repository.bare / "hooks" / "post-receive", "http://127.0.0.1:45678"
    with serving_at(state, here):
        assert run_json("repo", "connect", str(repository.bare), *org)["hook"]
        assert f"{here}/webhooks/git" in run_json("repo", "hook", str(repository.bare), *org)["hook_script"]
    assert f"{here}/webhooks/git" in hook.read_text()
    run_json("repo", "remove", str(repository.bare), *org)
    assert not hook.exists()


def test_the_hook_of_a_former_release_is_removed_if_unchanged(run_json: RunJson, tmp_path: Path):
    org = ("--org", "ada-example-org")
    former = (Path(__file__).parents[2] / "data" / "hooks" / "former-post-receive").read_text()
    for text, stays in ((former, False), (f"{former}# and more\n", True)):
        repository = GitRepository(tmp_path / str(stays))
        run_json("repo", "connect", str(repository.bare), *org)
        hook = repository.bare / "hooks" / "post-receive"
        hook.write_text(text)
        run_json("repo", "remove", str(repository.bare), *org)
        assert hook.exists() is stays


def test_the_hook_of_a_former_release_is_named_and_renewed(run_json: RunJson, tmp_path: Path, state: Path):
    """The command does it, as the unit may not write there. One that was changed is left alone."""
    repository, here = GitRepository(tmp_path), "http://127.0.0.1:8800"
    assert list(hooks(state, here)) == []
    run_json("repo", "connect", str(repository.bare), "--org", "ada-example-org")
    (current,) = hooks(state, here)
    assert current.ok
    hook, token = repository.bare / "hooks" / "post-receive", repository.bare / "ci-daemon.token"
    new, secret = hook.read_text(), token.read_text()
    for old in ((Path(__file__).parents[2] / "data" / "hooks" / "former-post-receive").read_text(), moved(new)):
        hook.write_text(old)
        (outdated,) = hooks(state, here)
        assert f"the hook of {repository.bare} is of a former release" in outdated.detail
        program, at, directory, *edit = shlex.split(outdated.fix or "")
        assert (program, at, directory) == ("ci-daemon", "--state-dir", str(state))
        run_json(*edit)
        assert (hook.read_text(), token.read_text(), hook.stat().st_mode & 0o777) == (new, secret, 0o755)
    hook.write_text(f"{moved(new)}# and more\n")
    assert all(each.ok for each in hooks(state, here))


def moved(hook: str) -> str:
    """Return the hook as it was installed for another address of the service."""
    return hook.replace("http://127.0.0.1:8800", "http://127.0.0.1:45678")
