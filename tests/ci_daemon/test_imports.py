"""Imports point one way, and each package avoids the libraries of others (`docs/architecture.md`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent.parent
MAY_IMPORT = {
    "storage": {"storage"},
    "actors/ir": {"actors.ir", "storage"},
    "actors/vms": {"actors.vms", "storage"},
    "actors": {"actors", "storage"},
    "api": {"api", "actors", "storage"},
    "ci_daemon": {"ci_daemon", "api", "actors", "storage"},
}
OURS = {"storage", "actors", "api", "ci_daemon"}
FORBIDDEN = {
    "actors/ir": {"asyncio", "os", "pathlib", "random", "socket", "subprocess", "tempfile", "threading", "time"},
    "api": {"apsw", "paramiko", "peewee", "playhouse", "sqlite3"},
    "storage": {"falcon", "paramiko", "pykka", "waitress"},
    "actors": {"apsw", "falcon", "peewee", "playhouse", "sqlite3", "waitress"},
}


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = file.relative_to(CHECKOUT).parts[: -node.level] if node.level else ()
            yield ".".join([*above, *([node.module] if node.module else [])])


def files(package: str) -> list[Path]:
    found = sorted((CHECKOUT / package).rglob("*.py"))
    assert found
    return found


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_itself_and_what_lies_below_it(package: str):
    wrong = {
        f"{file.relative_to(CHECKOUT)} imports {name}"
        for file in files(package)
        for name in imported(file)
        if name.split(".")[0] in OURS
        and not any(name == allowed or name.startswith(f"{allowed}.") for allowed in MAY_IMPORT[package])
    }
    assert not wrong


@pytest.mark.parametrize("package", FORBIDDEN)
def test_a_package_leaves_to_others_what_is_theirs(package: str):
    wrong = {
        f"{file.relative_to(CHECKOUT)} imports {name}"
        for file in files(package)
        for name in imported(file)
        if name.split(".")[0] in FORBIDDEN[package]
    }
    assert not wrong
