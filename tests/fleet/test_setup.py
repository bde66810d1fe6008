"""`ci-daemon incus setup` and `incus status`, with a real engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.vms.incus import Engine, EngineError, access_of
from ci_daemon.command import main
from ci_daemon.config import load
from storage import SystemClock
from tests.fleet.engine import ENGINES
from tests.fleet.fleet import POOL, Fleet
from tests.state import new_storage

RunJson = Callable[..., Any]


@pytest.fixture(scope="module", params=[("incus", 1), ("incus", 3), ("lxd", 1)], ids=["incus", "cluster", "lxd"])
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """An engine of the module's own; the first test prepares it, and the others repeat that."""
    name, count = request.param
    with Fleet(ENGINES[name], count) as started:
        yield started


@pytest.fixture
def state(tmp_path: Path, fleet: Fleet) -> Path:
    new_storage(tmp_path / "state", SystemClock()).close()
    configure(tmp_path / "state", f'socket = "{fleet.members[0].socket}"')
    return tmp_path / "state"


@pytest.fixture
def run(state: Path, capsys: pytest.CaptureFixture[str]) -> RunJson:
    """Run a command that must succeed; return its document."""

    def command(*words: str) -> Any:
        capsys.readouterr()
        code = main(["--state-dir", str(state), "--json", *words])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return json.loads(printed.out)

    return command


def configure(state: Path, way: str) -> None:
    (state / "ci-daemon.toml").write_text(f'[incus]\nstorage = "{POOL}"\n{way}\n')


def test_an_engine_is_prepared_once_and_says_what_it_has(fleet: Fleet, run: RunJson):
    """On a member, by its socket."""
    made = run("incus", "setup")
    done = {step["part"].partition(" ")[0]: step["done"] for step in made["steps"]}
    assert [done[part] for part in ("ACL", "network", "project", "profile")] == ["made"] * 4
    assert {step["done"] for step in run("incus", "setup")["steps"]} == {"as it should be"}
    status = run("incus", "status")
    assert {(member["vms"], member["snapshots"], *member["images"]) for member in status} == {(0, 0)}
    names = [member["name"] for member in status]
    assert names == [member.name for member in fleet.members] or len(names) == len(fleet.members) == 1


def test_status_of_an_engine_that_is_not_prepared_says_so(
    fleet: Fleet, state: Path, capsys: pytest.CaptureFixture[str]
):
    configure(state, f'socket = "{fleet.members[0].socket}"\nproject = "later"')
    assert main(["--state-dir", str(state), "incus", "status"]) == 1
    assert "the engine is not prepared: run `ci-daemon incus setup` (" in capsys.readouterr().err


def test_a_token_is_good_once(fleet: Fleet, state: Path, capsys: pytest.CaptureFixture[str]):
    setup = ["--state-dir", str(state), "incus", "setup", "--token", _token(fleet)]
    with fleet.switch.entered():
        assert main(setup) == 0
        assert main(setup) == 1
    assert "the engine does not take the token, which is good once: make another one" in capsys.readouterr().err


def test_networks_that_are_allowed_later_change_the_acl_alone(state: Path, run: RunJson):
    run("incus", "setup")
    with (state / "ci-daemon.toml").open("a") as configuration:
        configuration.write('[sandbox.network]\nallow = ["10.20.0.0/16"]\n')
    again = run("incus", "setup")["steps"]
    assert [step["part"] for step in again if step["done"] == "changed"] == ["ACL ci"]
    assert {step["done"] for step in again} == {"changed", "as it should be"}
    assert {step["done"] for step in run("incus", "setup")["steps"]} == {"as it should be"}


def test_a_token_lets_a_service_use_the_project_alone(fleet: Fleet, state: Path, run: RunJson):
    """From another host, over TLS."""
    with fleet.switch.entered():
        addresses = run("incus", "setup", "--token", _token(fleet))["addresses"]
        again = run("incus", "setup", "--token", _token(fleet))
        assert (again["addresses"], {step["done"] for step in again["steps"]}) == (addresses, {"as it should be"})
        assert addresses == [member.url for member in fleet.members]
        configure(state, f"addresses = {json.dumps(addresses)}")
        assert all(member["state"] == "Online" for member in run("incus", "status"))
        settings = load(state, {}).incus
        engine = Engine(access_of(state / "incus", settings), settings.project)
        assert engine.get("/1.0")["auth"] == "trusted"
        assert engine.get("/1.0/instances") == []
        with pytest.raises(EngineError):
            engine.get("/1.0/instances", {"project": "default"})
        engine.close()


def _token(fleet: Fleet) -> str:
    name = "" if fleet.engine.name == "incus" else "--name "
    return fleet.members[0].run(f"{fleet.engine.client} config trust add {name}ci-daemon").split()[-1]
