"""Contexts, their tokens, and the server that a command speaks to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

from api import HttpSettings
from ci_daemon.command import main
from ci_daemon.remote.contexts import Context, Contexts, ContextsUnusable, locked
from ci_daemon.remote.destination import LOOPBACK_URL, Destination, Wish, find_destination
from ci_daemon.remote.token_store import TokenPlace, TokenStore
from storage import SystemClock
from tests.state import new_storage

WORK, HOME = "https://ci.example.org", "https://ci.example.net"


class Wallet(KeyringBackend):
    """A system's keyring, in memory."""

    priority = 5

    def __init__(self) -> None:
        super().__init__()
        self.passwords: dict[tuple[str, str], str] = {}

    def set_password(self, service: str, username: str, password: str) -> None:
        self.passwords[service, username] = password

    def get_password(self, service: str, username: str) -> str | None:
        return self.passwords.get((service, username))

    def delete_password(self, service: str, username: str) -> None:
        if self.passwords.pop((service, username), None) is None:
            raise PasswordDeleteError("there is no such password")


@pytest.fixture
def wallet() -> Iterator[Wallet]:
    before, wallet = keyring.get_keyring(), Wallet()
    keyring.set_keyring(wallet)
    yield wallet
    keyring.set_keyring(before)


def signed_in(folder: Path, name: str, url: str, token: str) -> Context:
    with locked(folder):
        context = Context(name, url, "ada@example.org", TokenStore(folder).keep(name, url, token))
        Contexts.load(folder).adding(context).save(folder)
    return context


@pytest.fixture
def both(home: Path) -> Path:
    """Two contexts, of which the second is current."""
    signed_in(home, "work", WORK, "of work")
    signed_in(home, "home", HOME, "of home")
    return home


def found(folder: Path, wish: Wish) -> tuple[str, str]:
    destination = find_destination(wish, folder)
    assert isinstance(destination, Destination)
    return destination.url, destination.token


def test_a_wish_chooses_the_server(both: Path):
    assert found(both, Wish()) == (HOME, "of home")
    assert found(both, Wish(context_name="work")) == (WORK, "of work")
    assert found(both, Wish(url=WORK)) == (WORK, "of work")
    assert found(both, Wish(token="ci_a")) == (HOME, "ci_a")
    assert found(both, Wish(url="https://else.example.org", token="ci_a")) == ("https://else.example.org", "ci_a")
    assert found(both, Wish(url=WORK, token="ci_a", context_name="home")) == (HOME, "of home")


def test_a_token_goes_to_no_other_server(both: Path):
    with pytest.raises(ContextsUnusable, match="nobody is signed in at https://else"):
        find_destination(Wish(url="https://else.example.org"), both)
    moved = (both / "contexts.json").read_text().replace(HOME, "https://evil.example.org")
    (both / "contexts.json").write_text(moved)
    with pytest.raises(ContextsUnusable, match="nobody is signed in at https://evil"):
        find_destination(Wish(), both)


def test_without_a_current_context_the_others_are_named(both: Path, capsys: pytest.CaptureFixture[str]):
    Contexts.load(both).without("home").save(both)
    assert main(["whoami"]) == 1
    error = capsys.readouterr().err
    assert error == "ci-daemon: no context is current: choose one of work with `ci-daemon context use NAME`\n"


def test_without_contexts_a_token_is_for_this_host(home: Path):
    assert find_destination(Wish(), home) is None
    assert found(home, Wish(token="ci_a")) == (LOOPBACK_URL, "ci_a")
    assert HttpSettings().url == LOOPBACK_URL


@pytest.mark.parametrize("wish", [Wish(url="ftp://host", token="a"), Wish(token="a\nb"), Wish(context_name="none")])
def test_a_wish_that_makes_no_sense_is_refused(both: Path, wish: Wish):
    with pytest.raises(ContextsUnusable):
        find_destination(wish, both)


def test_a_file_that_others_can_read_is_refused(both: Path):
    (both / "tokens.json").chmod(0o644)
    with pytest.raises(ContextsUnusable, match="others can read or change"):
        find_destination(Wish(), both)


def test_a_damaged_file_is_refused(both: Path):
    (both / "contexts.json").write_text("[")
    with pytest.raises(ContextsUnusable, match="is damaged"):
        find_destination(Wish(), both)


def test_a_keyring_keeps_tokens_if_there_is_one(wallet: Wallet, home: Path):
    context = signed_in(home, "work", WORK, "of work")
    assert context.token_place == TokenPlace.KEYRING
    assert list(wallet.passwords.values()) == ["of work"]
    assert not (home / "tokens.json").exists()
    assert found(home, Wish()) == (WORK, "of work")
    TokenStore(home).forget(context)
    TokenStore(home).forget(context)
    assert wallet.passwords == {}


def test_contexts_are_listed_chosen_and_removed(both: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["context", "use", "work"]) == 0
    assert main(["context", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"commands speak to {WORK} as ada@example.org"
    assert [line.split()[0] + line.split()[-1] for line in lines[2:]] == ["workyes", "homeno"]
    assert main(["context", "remove", "work"]) == 0
    assert "of work" not in (both / "tokens.json").read_text()
    assert main(["context", "show"]) == 1
    assert main(["context", "use", "work"]) == 1
    assert "there is no context work" in capsys.readouterr().err


def test_a_command_without_server_and_box_names_both_ways(capsys: pytest.CaptureFixture[str]):
    assert main(["build", "list", "acme/web"]) == 1
    printed = capsys.readouterr().err
    assert "sign in with `ci-daemon login URL`" in printed
    assert "on the box give --state-dir" in printed


def test_a_state_directory_of_the_caller_is_the_box(both: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A context does not change what the owner's commands do, unless the owner names it."""
    new_storage(tmp_path / "no-box", SystemClock()).close()
    assert main(["build", "list", "acme/web"]) == 1
    assert 'there is no organization "acme"' in capsys.readouterr().err
    assert main(["--context", "none", "build", "list", "acme/web"]) == 1
    assert "there is no context none" in capsys.readouterr().err
