"""Exit codes, and output that is only errors, of all commands."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from ci_daemon import command
from storage import Storage
from tests.ci_daemon.conftest import Run


def test_commands_return_codes_of_the_table_alone():
    """Numbers are only in the table; `debug` and `logs` return the code of another program."""
    package = Path(command.__file__).parent
    numbers = [
        f"{file.relative_to(package)}:{node.lineno}"
        for file in package.rglob("*.py")
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, ast.FunctionDef) and "click" in ast.unparse(ast.Module(function.decorator_list, []))
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and node.value is not None
        if any(isinstance(part, ast.Constant) and type(part.value) is int for part in ast.walk(node.value))
    ]
    assert numbers == []


def test_quiet_prints_errors_and_documents_alone(run: Run, storage: Storage, capsys: pytest.CaptureFixture[str]):
    ada = storage.users.create("ada@example.org", "Ada")
    storage.organizations.create("Acme", "", ada.id)
    for arguments in (["org", "list"], ["org", "create", "Quiet", "--owner", "ada@example.org"], ["status"]):
        run(*arguments, "--quiet")
        assert capsys.readouterr() == ("", "")
    assert run("--quiet", "--json", "org", "list") == 0
    assert len(json.loads(capsys.readouterr().out)) == 3
    assert run("--quiet", "member", "list", "none") == 1
    assert capsys.readouterr().err == 'ci-daemon: there is no organization "none": `ci-daemon org list` shows yours\n'
