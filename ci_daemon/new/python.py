"""Steps of a Python project, by its lock file or its requirements. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_daemon.draft import DAILY, DraftCache, DraftStep

if TYPE_CHECKING:
    from ci_daemon.new.project import Project

_APT = "apt-get update && apt-get install -y --no-install-recommends python3 python3-venv ca-certificates git"
_NEEDS = re.compile(r"requires-python\s*=\s*[\"'][^\"']*(?:>=|~=|==)\s*3\.([0-9]+)")
_PYTHON_OF_DEBIAN = 11
_TEST_FILE = re.compile(r"test_.*\.py|.*_test\.py")
_EXTRA = re.compile(r"^(dev|test|tests)\s*=", re.MULTILINE)
_BIN = "/opt/venv/bin"
_AUTHORITIES = {"uv": "SSL_CERT_FILE", "poetry": "REQUESTS_CA_BUNDLE"}
"""The variable by which a tool trusts the authorities of the image, as pip does unasked."""

_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


def python(project: Project) -> tuple[str, tuple[DraftStep, ...]] | None:
    """Return the file that makes a project one of Python, and its last steps; None if it is none."""
    requirements = project.those("requirements.txt", "requirements-dev.txt", "requirements-test.txt")
    described = project.those("pyproject.toml", "setup.cfg", "setup.py")
    if project.has("uv.lock"):
        return "uv.lock", _locked(project, "uv", "uv.lock", "uv sync --frozen", "uv run --frozen")
    if project.has("poetry.lock"):
        return "poetry.lock", _locked(project, "poetry", "poetry.lock", "poetry install", "poetry run")
    if requirements:
        wanted = " ".join(f"-r {name}" for name in requirements)
        return requirements[0], _installed(project, wanted, requirements)
    if described and _is_package(project):
        return described[0], _installed(project, f"-e {_package(project)}", described)
    if described and any(name.endswith(".py") for name in project.names):
        return described[0], _installed(project, "", described)
    return None


def _is_package(project: Project) -> bool:
    text = project.texts.get("pyproject.toml", "") + project.texts.get("setup.cfg", "")
    return "[project]" in text or "[metadata]" in text or project.has("setup.py")


def _package(project: Project) -> str:
    """Return the project as a requirement, with the extra that tests need if it has one."""
    text = project.texts.get("pyproject.toml", "") + project.texts.get("setup.cfg", "")
    _, extras, rest = text.partition("[project.optional-dependencies]")
    if not extras:
        _, extras, rest = text.partition("[options.extras_require]")
    found = _EXTRA.search(rest.split("\n[", 1)[0])
    return "." if found is None else f"'.[{found[1]}]'"


def _base(project: Project) -> DraftStep | None:
    """Return the step that installs Debian's Python; None if the project needs a newer one."""
    needed = _NEEDS.search(project.texts.get("pyproject.toml", ""))
    if needed is not None and int(needed[1]) > _PYTHON_OF_DEBIAN:
        return None
    return DraftStep("Python", _APT, image="debian:12", cache=DAILY)


def _image(project: Project) -> str:
    needed = _NEEDS.search(project.texts.get("pyproject.toml", ""))
    return "python:3" if needed is None else f"python:3.{needed[1]}"


def _installed(project: Project, wanted: str, files: tuple[str, ...]) -> tuple[DraftStep, ...]:
    """Return the steps of a project that pip installs."""
    base = _base(project)
    tested = _has_tests(project)
    packages = " ".join(filter(None, (wanted, "pytest" if tested else "")))
    install = DraftStep(
        "Install",
        "python3 -m venv /opt/venv" + (f" && {_BIN}/pip install {packages}" if packages else ""),
        image=_image(project) if base is None else None,
        parent=base,
        cache=DraftCache(files),
    )
    command = f"{_BIN}/python -m pytest" if tested else f"{_BIN}/python -m compileall -q ."
    return (DraftStep("Python test", command, parent=install),)


def _locked(project: Project, tool: str, lock: str, sync: str, run: str) -> tuple[DraftStep, ...]:
    """Return the steps of a project with a lock file, whose tool makes an environment of its own."""
    base = _base(project)
    install = DraftStep(
        "Install",
        f"python3 -m venv /opt/venv && {_BIN}/pip install {tool} && {_BIN}/{sync}",
        image=_image(project) if base is None else None,
        parent=base,
        env={_AUTHORITIES[tool]: _BUNDLE},
        cache=DraftCache(project.those("pyproject.toml", lock)),
    )
    has_pytest = 'name = "pytest"' in project.texts[lock]
    tests = has_pytest and _has_tests(project)
    command = f"{_BIN}/{run} {'pytest' if tests else 'python -m compileall -q .'}"
    return (DraftStep("Python test", command, parent=install),)


def _has_tests(project: Project) -> bool:
    return any(map(_TEST_FILE.fullmatch, project.names))
