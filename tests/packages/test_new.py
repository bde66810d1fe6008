"""The first pipelines of projects whose tools come from a registry, run to their end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

LOCKS = Path(__file__).with_name("locks")
PYPROJECT = """
[tool.poetry]
name = "greeting"
version = "0.1.0"
description = ""
authors = ["Ada <ada@example.org>"]

[tool.poetry.dependencies]
python = "^3.11"
idna = "*"

[tool.poetry.group.dev.dependencies]
pytest = "*"

[[tool.poetry.source]]
name = "index"
url = "https://pypi.org/simple/"
priority = "primary"

[build-system]
requires = ["poetry-core"]
build-backend = "poetry.core.masonry.api"
"""
GREETING = {
    "pyproject.toml": PYPROJECT,
    "greeting/__init__.py": "import idna\n\nHELLO = idna.encode('hello').decode()\n",
    "tests/test_greeting.py": "from greeting import HELLO\n\n\ndef test_it():\n    assert HELLO == 'hello'\n",
}
PACKAGE = """
{"name": "greeting", "version": "1.0.0", "private": true, "dependencies": {"ms": "^2.1.3"},
"scripts": {"build": "node -e 'console.log(6 * 7)'", "test": "node test.js"}%s}
"""
NODE = {"test.js": "console.log(require('ms')('1s') === 1000 ? '1 passed' : '0 passed')\n"}


@dataclass(frozen=True)
class Example:
    """A project, by its lock file there and here."""

    lock: str
    stored: str
    files: Mapping[str, str]

    def write(self, tree: Path) -> None:
        for name, text in self.files.items():
            (tree / name).parent.mkdir(exist_ok=True)
            (tree / name).write_text(text)
        shutil.copy(LOCKS / self.stored, tree / self.lock)


YARN_4 = {".yarnrc.yml": "nodeLinker: node-modules\n", "package.json": PACKAGE % ', "packageManager": "yarn@4.18.1"'}
EXAMPLES = {
    "poetry": Example("poetry.lock", "poetry.lock", GREETING),
    "pnpm": Example("pnpm-lock.yaml", "pnpm-lock.yaml", {**NODE, "package.json": PACKAGE % ""}),
    "yarn 1": Example("yarn.lock", "yarn-1.lock", {**NODE, "package.json": PACKAGE % ""}),
    "yarn 4": Example("yarn.lock", "yarn-4.lock", {**NODE, **YARN_4}),
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_the_first_pipeline_of_a_project_passes(example: Example, tmp_path: Path):
    (tree := tmp_path / "greeting").mkdir()
    example.write(tree)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    program = Path(sys.executable).with_name("ci-daemon")
    for command in ("new", "run"):
        done = subprocess.run(
            [program, command, tree], env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
