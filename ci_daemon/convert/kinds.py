"""The system that a file is of, told by its name and by its form. Pure.

What another system's file says would be taken for something else, and run, if it were read as GitLab's.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from actors.ir.systems import GLOBAL_KEYS, NotReadable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import PurePath

    from actors.ir.systems import Located

GITLAB_NAMES = (".gitlab-ci.yml", ".gitlab-ci.yaml")
WORKFLOW_FOLDERS = (".github/workflows", ".forgejo/workflows", ".gitea/workflows")
"""Folders of workflows, in a repository: GitHub's, Forgejo's and Gitea's."""

WOODPECKER_PLACES = (".woodpecker/*", ".woodpecker.yaml", ".woodpecker.yml")
"""The places of Woodpecker's files, of which it reads the first that has any."""

OTHER_PLACES = (".drone.yml", ".drone.yaml", ".build.yml", ".builds/*")
"""The places of files of Drone and builds.sr.ht."""

_CONVERTED = (
    "only files of GitLab CI, Woodpecker, Drone and builds.sr.ht and workflows of GitHub, Forgejo and Gitea are "
    "converted"
)

_BY_NAME = (
    ("Travis CI", r"\.travis\.ya?ml"),
    ("CircleCI", r"(.*/)?\.circleci/.*\.ya?ml"),
    ("Azure Pipelines", r"(.*/)?\.?azure-pipelines[\w.-]*\.ya?ml|(.*/)?\.azure(-pipelines)?/.*\.ya?ml"),
    ("Jenkins", r"(.*/)?Jenkinsfile[\w.-]*|.*\.jenkinsfile"),
    ("Bitbucket Pipelines", r"bitbucket-pipelines\.ya?ml"),
    ("Drone in another language than YAML", r"\.drone\.(star|jsonnet)"),
    ("Cirrus CI", r"\.cirrus\.(ya?ml|star)"),
    ("AppVeyor", r"\.?appveyor\.ya?ml"),
    ("Buildkite", r"(.*/)?\.?buildkite/.*\.ya?ml|\.?buildkite\.ya?ml"),
    ("Semaphore", r"(.*/)?\.semaphore/.*\.ya?ml"),
    ("Google Cloud Build", r"cloudbuild[\w.-]*\.ya?ml"),
    ("AWS CodeBuild", r"buildspec[\w.-]*\.ya?ml"),
    ("Taskcluster", r"\.taskcluster\.ya?ml"),
    ("Wercker", r"wercker\.ya?ml"),
    ("Codefresh", r"codefresh\.ya?ml"),
    ("Screwdriver", r"screwdriver\.ya?ml"),
    ("Vela", r"\.vela\.ya?ml"),
    ("Docker Compose", r"(docker-)?compose[\w.-]*\.ya?ml"),
    ("Dependabot", r"dependabot\.ya?ml"),
    ("pre-commit", r"\.pre-commit-config\.ya?ml"),
)
_IN_A_TREE = (
    *(".travis.yml", ".circleci/config.yml", "azure-pipelines.yml", "Jenkinsfile", "bitbucket-pipelines.yml"),
    *(".drone.star", ".drone.jsonnet", ".cirrus.yml", "appveyor.yml", ".appveyor.yml", ".buildkite"),
    *(".semaphore", "cloudbuild.yaml", "buildspec.yml", ".taskcluster.yml"),
)
_OF_DRONE = re.compile(r"^kind:\s*(pipeline|secret|signature)\b", re.MULTILINE)
_BY_TEXT = (
    ("Jenkins", re.compile(r"^\s*(pipeline|node(\s*\([^)\n]{0,200}\))?)\s*\{", re.MULTILINE)),
    ("Kubernetes", re.compile(r"^apiVersion:\s*\S", re.MULTILINE)),
)


class Kind(Enum):
    """A system whose files are converted."""

    GITLAB = "GitLab CI"
    WORKFLOW = "a workflow of GitHub, Forgejo or Gitea"
    WOODPECKER = "Woodpecker"
    DRONE = "Drone"
    SOURCEHUT = "builds.sr.ht"


_KIND_BY_NAME = (
    (Kind.DRONE, re.compile(r"(.*/)?\.drone\.ya?ml")),
    (Kind.WOODPECKER, re.compile(r"(.*/)?\.woodpecker(\.ya?ml|/.*\.ya?ml)")),
    (Kind.SOURCEHUT, re.compile(r"(.*/)?\.builds?(\.ya?ml|/.*\.ya?ml)")),
)


def kind_by_name(path: PurePath) -> Kind | None:
    """Return the system that a file is of by its place; None if that does not tell."""
    if f"{path.parent.parent.name}/{path.parent.name}" in WORKFLOW_FOLDERS:
        return None
    return next((kind for kind, pattern in _KIND_BY_NAME if pattern.fullmatch(path.as_posix())), None)


def has_documents(text: str) -> bool:
    """Tell whether a text has the form of Drone's, which may have several documents."""
    return _OF_DRONE.search(text) is not None


def refuse_other_name(path: PurePath) -> None:
    """Refuse a file whose name is another system's. Raises NotReadable."""
    if f"{path.parent.parent.name}/{path.parent.name}" in WORKFLOW_FOLDERS:
        return
    for system, pattern in _BY_NAME:
        names = (path.name, path.as_posix()) if "/" in pattern else (path.name,)
        if any(re.fullmatch(pattern, name) for name in names):
            raise _other(system)


def refuse_other_text(text: str) -> None:
    """Refuse a text that has the form of another system's, and is no YAML. Raises NotReadable."""
    for system, pattern in _BY_TEXT:
        if pattern.search(text):
            raise _other(system)


def other_files(exists: Callable[[str], bool]) -> str | None:
    """Return a sentence about another system's files in a tree; None if it has none."""
    for name in filter(exists, _IN_A_TREE):
        for system, pattern in _BY_NAME:
            if re.fullmatch(pattern, name) or re.fullmatch(pattern, f"{name}/x.yml"):
                return f"{name} is a file of {system}: {_CONVERTED}"
    return None


def refuse_other_form(document: Located) -> None:
    """Refuse a document that has the form of another system's. Raises NotReadable."""
    _form_of(document)


def _form_of(document: Located) -> Kind | None:
    """Return the system that has a form of its own; None for GitLab's and workflows. Raises NotReadable."""
    system = next((system for system, has_form in _FORMS if has_form(document)), None)
    if isinstance(system, str):
        raise _other(system)
    return system


def kind_of(document: Located) -> Kind:
    """Return the system that a file is of, by its form. Raises NotReadable for all others."""
    if (kind := _form_of(document)) is not None:
        return kind
    members = document.mapping()
    if "on" in members and "jobs" in members:
        if not document.get("jobs").mapping():
            message = f"line {document.get('jobs').line}: jobs: no job is in it"
            raise NotReadable(message)
        return Kind.WORKFLOW
    jobs = [name for name in members if name not in GLOBAL_KEYS]
    for name in jobs:
        if not (members[name].mapping() or name.startswith(".")):
            shown = " ".join(name.split())[:40]
            message = f"line {members[name].line}: {shown} is neither a job nor a key of GitLab CI: {_CONVERTED}"
            raise NotReadable(message)
    if not any(_is_job(members[name]) for name in jobs) and "include" not in members:
        message = f"it has no job of GitLab CI, and no `on` and `jobs` of a workflow: {_CONVERTED}"
        raise NotReadable(message)
    return Kind.GITLAB


_OF_BITBUCKET = frozenset({"default", "branches", "custom", "pull-requests", "tags"})


def _other(system: str) -> NotReadable:
    return NotReadable(f"this is a file of {system}: {_CONVERTED}")


def _is_job(job: Located) -> bool:
    return bool({"script", "extends", "trigger", "run", "needs", "stage"} & set(job.mapping()))


def _has(*keys: str) -> Callable[[Located], bool]:
    return lambda document: set(keys) <= set(document.mapping())


def _lists(document: Located, key: str) -> bool:
    return isinstance(document.get(key).value, tuple)


def _steps_with(document: Located, key: str, *names: str) -> bool:
    """Tell whether the members or items at a key are mappings that have one of the names."""
    value = document.get(key)
    parts = value.items() if isinstance(value.value, tuple) else tuple(value.mapping().values())
    return any(set(names) & set(each.mapping()) for each in parts)


def _is_travis(document: Located) -> bool:
    words = {"language", "install", "before_install", "dist", "sudo", "addons", "rvm", "jdk", "python", "node_js", "go"}
    scripts = document.get("script").value is not None and not document.get("script").mapping()
    return scripts or (document.get("language").text is not None and bool(words & set(document.mapping())))


def _is_cirrus(document: Located) -> bool:
    def is_task(name: str, task: Located) -> bool:
        scripts = any(each.endswith("_script") for each in task.mapping())
        of_cirrus = {"container", "docker_builder", "macos_instance", "freebsd_instance", "compute_engine_instance"}
        return (name == "task" or name.endswith("_task")) and (scripts or bool(of_cirrus & set(task.mapping())))

    return any(is_task(name, each) for name, each in document.mapping().items())


_FORMS: tuple[tuple[Kind | str, Callable[[Located], bool]], ...] = (
    ("CircleCI", lambda d: _has("version", "jobs")(d) and d.get("on").value is None),
    ("CircleCI", _has("version", "workflows")),
    ("CircleCI", _has("orbs")),
    ("Travis CI", _is_travis),
    ("Bitbucket Pipelines", lambda d: bool(_OF_BITBUCKET & set(d.get("pipelines").mapping()))),
    (Kind.DRONE, lambda d: d.get("kind").text in {"pipeline", "secret", "signature"}),
    (Kind.SOURCEHUT, lambda d: _lists(d, "tasks") and (_has("image")(d) or _has("sources")(d))),
    ("Cirrus CI", _is_cirrus),
    ("AppVeyor", _has("install", "environment")),
    ("AppVeyor", lambda d: bool({"build_script", "test_script"} & set(d.mapping()))),
    ("AWS CodeBuild", _has("version", "phases")),
    ("Semaphore", _has("version", "blocks")),
    ("Google Cloud Build", lambda d: _lists(d, "steps") and _steps_with(d, "steps", "args", "entrypoint", "waitFor")),
    ("Azure Pipelines", lambda d: _steps_with(d, "steps", "script", "task", "bash", "pwsh", "powershell", "checkout")),
    ("Azure Pipelines", lambda d: _lists(d, "jobs") and _steps_with(d, "jobs", "job", "deployment", "template")),
    ("Azure Pipelines", lambda d: _lists(d, "stages") and _steps_with(d, "stages", "stage", "template")),
    ("Azure Pipelines", _has("trigger", "pool")),
    (Kind.WOODPECKER, lambda d: _steps_with(d, "steps", "commands", "image") and not _has("jobs")(d)),
    (Kind.WOODPECKER, lambda d: _steps_with(d, "pipeline", "commands", "image")),
    ("Buildkite", lambda d: _lists(d, "steps") and not _has("jobs")(d) and not _has("runs")(d)),
    ("Concourse", lambda d: _lists(d, "jobs") and (_lists(d, "resources") or _steps_with(d, "jobs", "plan"))),
    ("an action of GitHub, and no workflow", lambda d: d.get("runs", "using").value is not None),
    ("Kubernetes", _has("apiVersion", "kind")),
    ("Docker Compose", lambda d: _steps_with(d, "services", "image", "build") and bool(d.get("services").mapping())),
    ("Dependabot", _has("version", "updates")),
    ("pre-commit", lambda d: _lists(d, "repos")),
)  # fmt: skip
