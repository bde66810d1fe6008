"""The locks in `requirements/` fit `setup.cfg` and `pyproject.toml`; `.ci/lock` writes them."""

from __future__ import annotations

import re
import tomllib
from configparser import ConfigParser
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).parents[2]


def locked(name: str) -> dict[str, Requirement]:
    """Return the packages of a lock, by name, each with the pin of its version."""
    text = (CHECKOUT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    pins = [Requirement(line) for line in re.findall(r"^([a-z0-9].*?) \\$", text, re.MULTILINE)]
    return {canonicalize_name(pin.name): pin for pin in pins}


def version(pin: Requirement) -> str:
    (specifier,) = pin.specifier
    assert specifier.operator == "=="
    return specifier.version


def declared(*extras: str) -> list[Requirement]:
    """Return the requirements in `setup.cfg`, with those of extras."""
    setup = ConfigParser(interpolation=None)
    setup.read(CHECKOUT / "setup.cfg", encoding="utf-8")
    texts = [setup["options"]["install_requires"], *(setup["options.extras_require"][each] for each in extras)]
    return [Requirement(line) for text in texts for line in text.splitlines() if line and not line.startswith("#")]


def here(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def closure(wanted: list[Requirement]) -> set[str]:
    """Return the names of all that requirements need on this machine, by what is installed here."""
    found: set[tuple[str, str]] = set()
    left = [(each, extra) for each in wanted for extra in ("", *each.extras)]
    while left:
        requirement, extra = left.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in found:
            continue
        found.add((name, extra))
        needed = [each for each in map(Requirement, requires(name) or ()) if here(each, extra)]
        left += [(each, more) for each in needed for more in ("", *each.extras)]
    return {name for name, _ in found}


@pytest.mark.parametrize(("lock", "extras"), [("run", ()), ("test", ("dev", "otlp"))])
def test_a_lock_has_what_is_required_and_no_more(lock: str, extras: tuple[str, ...]):
    """If it does not, run `.ci/lock`."""
    pins = locked(lock)
    wanted = declared(*extras)
    assert [each for each in wanted if version(pins[canonicalize_name(each.name)]) not in each.specifier] == []
    assert {name for name, pin in pins.items() if here(pin)} == closure(wanted)


def test_each_requirement_is_weighed():
    """`docs/dependencies.md` has a row for each, and none for those that have gone."""
    page = (CHECKOUT / "docs/dependencies.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\S+)` \|", page, re.MULTILINE)) == sorted(each.name for each in declared())


def test_what_builds_is_locked():
    wanted = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    pins = locked("build")
    assert [each for each in map(Requirement, wanted) if version(pins[each.name]) not in each.specifier] == []
    assert "uv" in pins


def test_tests_run_with_the_versions_that_users_get():
    tested = locked("test")
    others = {**locked("run"), **locked("build")}
    assert {
        name: pin for name, pin in others.items() if name in tested and pin.specifier != tested[name].specifier
    } == {}
    assert locked("run").keys() <= tested.keys()


@pytest.mark.parametrize("lock", ["run", "test", "build"])
def test_each_pin_has_hashes_and_no_index_is_named(lock: str):
    text = (CHECKOUT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(locked(lock))
    assert [each for each in blocks if "--hash=sha256:" not in each] == []
    assert not re.search(r"^--|://", text, re.MULTILINE)
