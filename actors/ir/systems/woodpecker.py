"""Files of Woodpecker as pipelines. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from actors.ir.systems.builds import FilterReader, Words
from actors.ir.systems.omissions import LeftOut, only
from actors.ir.systems.steps import BRANCH, REF, Dialect, Workflow, cells_of, steps_of
from actors.ir.systems.workflows import Source, pipelines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.ir.systems.located import Located
    from actors.ir.systems.model import ConvertedPipeline
    from actors.ir.systems.omissions import Omission, Omissions

_EVENTS = MappingProxyType(
    {"push": "push", "pull_request": "pull_request", "tag": "tag", "cron": "schedule", "manual": "manual"}
)
_SCHEDULED = '"$(case "$CI_EVENT" in schedule) echo cron ;; *) printf %s "$CI_EVENT" ;; esac)"'
_OF_PULL_REQUEST = '"$(if [ -n "${CI_PULL_REQUEST:-}" ]; then printf %s "${CI_BRANCH#*:}"; fi)"'
_WOODPECKER = Dialect(
    "Woodpecker",
    MappingProxyType(
        {
            "CI": "woodpecker",
            "CI_SYSTEM_NAME": "woodpecker",
            "CI_COMMIT_SHA": '"$CI_COMMIT"',
            "CI_COMMIT_REF": REF,
            "CI_COMMIT_BRANCH": BRANCH,
            "CI_COMMIT_SOURCE_BRANCH": _OF_PULL_REQUEST,
            "CI_COMMIT_TARGET_BRANCH": '"${CI_TARGET_BRANCH:-}"',
            "CI_COMMIT_TAG": '"${CI_TAG:-}"',
            "CI_COMMIT_PULL_REQUEST": '"${CI_PULL_REQUEST:-}"',
            "CI_PIPELINE_NUMBER": '"$CI_BUILD_NUMBER"',
            "CI_PIPELINE_EVENT": _SCHEDULED,
            "CI_PIPELINE_URL": '"$CI_BUILD_URL"',
            "CI_WORKSPACE": "/workspace",
        }
    ),
    ("CI_", "CI"),
    MappingProxyType(
        {
            "CI_COMMIT_SHA": "${{ build.commit }}",
            "CI_COMMIT_TAG": "${{ build.tag }}",
            "CI_COMMIT_PULL_REQUEST": "${{ build.pull_request }}",
            "CI_COMMIT_TARGET_BRANCH": "${{ build.target_branch }}",
            "CI_PIPELINE_NUMBER": "${{ build.number }}",
            "CI_SYSTEM_NAME": "woodpecker",
            "CI_WORKSPACE": "/workspace",
        }
    ),
)
_WORDS = Words("Woodpecker", _EVENTS, tags_pass=True, all_pass_schedules=True)
_KEYS = frozenset(
    {"when", "steps", "pipeline", "services", "clone", "skip_clone", "matrix", "depends_on", "runs_on", "labels"}
    | {"workspace", "variables", "platform", "version", "branches"}
)
_CLONE = MappingProxyType(
    {
        "depth": "builds have the last 50 commits, whatever this says",
        "partial": "builds have the last 50 commits and all of their files",
        "tags": "builds have the tags of the last 50 commits, whatever this says",
        "lfs": "a push has the files of git LFS only after `ci-daemon repo edit --lfs`",
        "recursive": "a push has submodules only after `ci-daemon repo edit --submodules`",
        "submodules": "a push has submodules only after `ci-daemon repo edit --submodules`",
        "submodule_override": "a push has submodules only after `ci-daemon repo edit --submodules`",
    }
)


def convert_woodpecker(
    documents: Mapping[str, tuple[Located, Omissions]],
) -> tuple[tuple[ConvertedPipeline, ...], tuple[Omission, ...]]:
    """Return the pipelines of files, by their names, and what differs.

    Raises NotReadable.
    """
    files = [Source(name, document, omissions) for name, (document, omissions) in documents.items()]
    return pipelines(files, _WOODPECKER, _WORDS, _workflow)


def _workflow(file: Source) -> Workflow | None:
    """Return what a file says; None if all of it is left out, which is told."""
    document, omissions = file.document, file.omissions
    try:
        only(document, _KEYS | {each for each in document.mapping() if each.startswith("x-")}, "")
        _check(document)
        found = FilterReader(_WORDS, omissions).read(document.get("when"), "when")
        if document.get("branches").value is not None:
            raise LeftOut(document.get("branches"), "branches", "write `when: {branch: …}`")
        if found.cells or found.statuses != {"success"}:
            raise LeftOut(document.get("when"), "when", "status and matrix are of steps: `runs_on` is of a file")
        if runs_on := document.get("runs_on").texts():
            if set(runs_on) == {"failure"} and not file.waits_for:
                raise LeftOut(document.get("runs_on"), "runs_on", "it waits for no other workflow (`depends_on`)")
            found = type(found)(found.builds, frozenset(runs_on))
    except LeftOut as left_out:
        omissions.lose(left_out.at, left_out.key.lstrip("."), f"all of it is left out: {left_out.why}")
        return None
    if not found.builds:
        omissions.add(document.get("when"), "when", "it never runs: nothing is built for its events")
        return None
    _tell(document, omissions)
    steps = document.get("steps") if document.get("steps").value is not None else document.get("pipeline")
    cells = cells_of(document.get("matrix"), "matrix")
    return Workflow(file.name, steps_of(steps), found, file.waits_for, cells, document.get("services"), document)


def _check(document: Located) -> None:
    """Raise LeftOut for what the whole file needs and is not there."""
    for key in ("labels", "platform"):
        given = document.get(key)
        platform = given.get("platform") if key == "labels" else given
        if platform.value is not None and platform.text != "linux/amd64":
            raise LeftOut(platform, key, "jobs run on linux/amd64 alone")
    for name, clone in document.get("clone").mapping().items():
        only(clone, frozenset({"image", "settings", "when", "environment"}), f"clone.{name}")
        if "plugin-git" not in (clone.get("image").text or "plugin-git"):
            raise LeftOut(clone, f"clone.{name}", "the service gets the source itself: `ci-daemon repo connect`")


def _tell(document: Located, omissions: Omissions) -> None:
    for name, clone in document.get("clone").mapping().items():
        settings = clone.get("settings")
        omissions.told(settings, _CLONE, f"clone.{name}.settings.")
        omissions.unknown(settings, frozenset(_CLONE), f"clone.{name}.settings.")
    if not (given := document.get("skip_clone")).is_off:
        omissions.lose(given, "skip_clone", "the source is there in each job, also where it is not asked for")
    if (given := document.get("workspace")).value is not None:
        omissions.lose(given, "workspace", "the source is in /workspace: name no other folder in commands")
    for name, value in document.get("labels").mapping().items():
        if name != "platform":
            omissions.add(value, f"labels.{name}", "all jobs run on VMs of this service")
