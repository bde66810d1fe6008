"""Languages and tools of a project, and the steps that test it. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_daemon.draft import DAILY, DraftCache, DraftPipeline, DraftStep
from ci_daemon.new.node import node
from ci_daemon.new.python import python
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_daemon.new.project import Project

_IMAGE = "debian:12"
_APT = "apt-get update && apt-get install -y --no-install-recommends"
_SECONDS = 1800
_GO = re.compile(r"^go\s+1\.([0-9]+)", re.MULTILINE)
_GO_OF_DEBIAN = 19
_NEW_RUST = re.compile(r'^(edition\s*=\s*"2024"|rust-version\s*=)', re.MULTILINE)
_TESTS = re.compile(r"^(test|check)\s*:(?!=)", re.MULTILINE)


@immutable
class Found:
    """A language of a project, the file that tells it, and the last steps that test it."""

    language: str
    file: str
    steps: tuple[DraftStep, ...]


def detect(project: Project) -> tuple[Found, ...]:
    """Return the languages of a project.

    Make counts only where there is no other, as it often calls their tools.
    """
    found = [each for detector in (_python, _node, _go, _rust, _cmake) if (each := detector(project)) is not None]
    make = _make(project) if not found else None
    return tuple(found) if make is None else (make,)


def first_pipeline(found: Sequence[Found]) -> DraftPipeline:
    """Return a pipeline that tests what was found; without anything one that greets."""
    steps = [step for each in found for step in each.steps]
    if not steps:
        steps = [
            DraftStep(
                "Hello",
                "echo 'Replace this by the commands that test the project.'",
                image=_IMAGE,
            )
        ]
    return DraftPipeline("ci", (tuple(steps),), timeout_seconds=_SECONDS)


def _python(project: Project) -> Found | None:
    made = python(project)
    return None if made is None else Found("Python", made[0], made[1])


def _node(project: Project) -> Found | None:
    made = node(project)
    return None if made is None else Found("Node", made[0], made[1])


def _go(project: Project) -> Found | None:
    if not project.has("go.mod"):
        return None
    version = _GO.search(project.texts["go.mod"])
    minor = 0 if version is None else int(version[1])
    base = None
    if minor <= _GO_OF_DEBIAN:
        base = DraftStep("Go", f"{_APT} golang-go ca-certificates git", image=_IMAGE, cache=DAILY)
    modules = DraftStep(
        "Go modules",
        "go mod download",
        image=f"golang:1.{minor}" if base is None else None,
        parent=base,
        cache=DraftCache(project.those("go.mod", "go.sum")),
    )
    return Found(
        "Go",
        "go.mod",
        (DraftStep("Go test", "go build ./... && go test ./...", parent=modules),),
    )


def _rust(project: Project) -> Found | None:
    if not project.has("Cargo.toml"):
        return None
    locked = " --locked" if project.has("Cargo.lock") else ""
    base = None
    if not _NEW_RUST.search(project.texts["Cargo.toml"]):
        base = DraftStep("Rust", f"{_APT} cargo ca-certificates git", image=_IMAGE, cache=DAILY)
    crates = DraftStep(
        "Crates",
        f"cargo fetch{locked}",
        image="rust:1" if base is None else None,
        parent=base,
        cache=DraftCache(project.those("Cargo.toml", "Cargo.lock")),
    )
    return Found(
        "Rust",
        "Cargo.toml",
        (DraftStep("Cargo test", f"cargo test{locked}", parent=crates),),
    )


def _cmake(project: Project) -> Found | None:
    if not project.has("CMakeLists.txt"):
        return None
    base = DraftStep("Compiler", f"{_APT} build-essential cmake", image=_IMAGE, cache=DAILY)
    compiled = DraftStep(
        "Build",
        "cmake -B build && cmake --build build",
        parent=base,
        cache=DraftCache(),
    )
    test = DraftStep(
        "CTest",
        "cmake --build build && ctest --test-dir build --output-on-failure",
        parent=compiled,
    )
    return Found("C with CMake", "CMakeLists.txt", (test,))


def _make(project: Project) -> Found | None:
    files = project.those("GNUmakefile", "makefile", "Makefile")
    if not files:
        return None
    base = DraftStep("Compiler", f"{_APT} build-essential", image=_IMAGE, cache=DAILY)
    target = _TESTS.search(project.texts[files[0]])
    command = "make" if target is None else f"make && make {target[1]}"
    return Found("Make", files[0], (DraftStep("Make", command, parent=base),))
