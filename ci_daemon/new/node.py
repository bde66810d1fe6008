"""Steps of a Node project, by its lock file and its scripts. Pure."""

from __future__ import annotations

import json
from dataclasses import field
from typing import TYPE_CHECKING

from ci_daemon.draft import DAILY, DraftCache, DraftStep
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_daemon.new.project import Project

_APT = "apt-get update && apt-get install -y --no-install-recommends nodejs npm ca-certificates git"
_NO_TEST = "no test specified"
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
"""The authorities of the image, which Node does not trust unasked."""


@immutable
class _Tool:
    """A package manager: its lock file, how it comes, and how it installs what is locked."""

    lock: str
    setup: str
    install: str
    run: str
    env: Mapping[str, str] = field(default_factory=dict)


_TOOLS = (
    _Tool(
        "pnpm-lock.yaml",
        " && npm install --global pnpm@9",
        "pnpm install --frozen-lockfile",
        "pnpm run",
    ),
    _Tool(
        "yarn.lock",
        " && npm install --global yarn@1",
        "yarn install --frozen-lockfile",
        "yarn run",
    ),
    _Tool("package-lock.json", "", "npm ci", "npm run"),
)
_UNLOCKED = _Tool("package.json", "", "npm install", "npm run")
_BERRY = _Tool(
    "yarn.lock",
    " && npm install --global corepack && corepack enable",
    "yarn install --immutable",
    "yarn run",
    {"COREPACK_NPM_REGISTRY": "https://registry.npmjs.org", "NODE_EXTRA_CA_CERTS": _BUNDLE},
)
"""Yarn from version 2 on, in the version that the project names, from npm's registry like the rest."""


def node(project: Project) -> tuple[str, tuple[DraftStep, ...]] | None:
    """Return the file that makes a project one of Node, and its last steps; None if it is none."""
    if not project.has("package.json"):
        return None
    tool = next((each for each in _TOOLS if project.has(each.lock)), _UNLOCKED)
    if tool.lock == "yarn.lock" and "__metadata:" in project.texts["yarn.lock"]:
        tool = _BERRY
    base = DraftStep("Node", f"{_APT}{tool.setup}", image="debian:12", cache=DAILY)
    files = project.those("package.json", tool.lock) if tool is not _UNLOCKED else ("package.json",)
    step = DraftStep("Packages", tool.install, parent=base, env=tool.env, cache=DraftCache(files))
    scripts = _scripts(project.texts["package.json"])
    for name in ("build", "test"):
        if name in scripts and _NO_TEST not in scripts[name]:
            step = DraftStep(f"Node {name}", f"{tool.run} {name}", parent=step)
    return tool.lock, (step,)


def _scripts(text: str) -> dict[str, str]:
    """Return the scripts of a package; none if its description is not valid."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    scripts = document.get("scripts") if isinstance(document, dict) else None
    return {name: each for name, each in scripts.items() if isinstance(each, str)} if isinstance(scripts, dict) else {}
