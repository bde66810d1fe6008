"""Files of Drone as pipelines. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from actors.ir.systems.builds import FilterReader, Words
from actors.ir.systems.jobs import label
from actors.ir.systems.located import NotReadable
from actors.ir.systems.omissions import LeftOut, only
from actors.ir.systems.steps import BRANCH, REF, Dialect, Workflow, steps_of
from actors.ir.systems.workflows import Source, pipelines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.ir.systems.located import Located
    from actors.ir.systems.model import ConvertedPipeline
    from actors.ir.systems.omissions import Omission, Omissions

_EVENTS = MappingProxyType(
    {"push": "push", "pull_request": "pull_request", "tag": "tag", "cron": "schedule", "custom": "manual"}
)
_EVENT = '"$(case "$CI_EVENT" in schedule) echo cron ;; manual) echo custom ;; *) printf %s "$CI_EVENT" ;; esac)"'
_HEAD = '"$([ -n "${CI_TAG:-}" ] || printf %s "${CI_BRANCH#*:}")"'
_DRONE = Dialect(
    "Drone",
    MappingProxyType(
        {
            "DRONE": "true",
            "DRONE_COMMIT": '"$CI_COMMIT"',
            "DRONE_COMMIT_SHA": '"$CI_COMMIT"',
            "DRONE_COMMIT_REF": REF,
            "DRONE_BRANCH": BRANCH,
            "DRONE_COMMIT_BRANCH": BRANCH,
            "DRONE_TARGET_BRANCH": BRANCH,
            "DRONE_SOURCE_BRANCH": _HEAD,
            "DRONE_TAG": '"${CI_TAG:-}"',
            "DRONE_PULL_REQUEST": '"${CI_PULL_REQUEST:-}"',
            "DRONE_BUILD_NUMBER": '"$CI_BUILD_NUMBER"',
            "DRONE_BUILD_EVENT": _EVENT,
            "DRONE_BUILD_LINK": '"$CI_BUILD_URL"',
            "DRONE_WORKSPACE": "/workspace",
        }
    ),
    ("DRONE",),
    MappingProxyType(
        {
            "DRONE": "true",
            "DRONE_COMMIT": "${{ build.commit }}",
            "DRONE_COMMIT_SHA": "${{ build.commit }}",
            "DRONE_TAG": "${{ build.tag }}",
            "DRONE_PULL_REQUEST": "${{ build.pull_request }}",
            "DRONE_BUILD_NUMBER": "${{ build.number }}",
            "DRONE_WORKSPACE": "/workspace",
        }
    ),
)
_WORDS = Words("Drone", _EVENTS, tags_pass=False, all_pass_schedules=False)
_KEYS = frozenset(
    {"kind", "type", "name", "steps", "trigger", "depends_on", "clone", "platform", "services", "workspace", "volumes"}
    | {"environment", "image_pull_secrets", "node", "concurrency"}
)
_WITHOUT = MappingProxyType(
    {
        "secret": "secrets are set here by `ci-daemon secret set`",
        "signature": "no signature is looked at: who may push may change the pipeline",
    }
)


def convert_drone(
    documents: Sequence[Located], omissions: Omissions
) -> tuple[tuple[ConvertedPipeline, ...], tuple[Omission, ...]]:
    """Return the pipelines of a file's documents: one for each, but one for all that wait for each other.

    Raises NotReadable.
    """
    sources = []
    for place, document in enumerate(each for each in documents if each.mapping()):
        kind = document.get("kind").text or "pipeline"
        if kind in _WITHOUT:
            omissions.add(document, f"kind: {kind}", _WITHOUT[kind])
        elif kind == "pipeline":
            name = document.get("name").scalar or ("ci" if place == 0 else "default")
            sources.append(Source(name, document, omissions))
        else:
            message = f"line {document.line}: kind: {label(kind)} is not known here"
            raise NotReadable(message)
    if len({each.name for each in sources}) != len(sources):
        message = "two of its pipelines have the same name"
        raise NotReadable(message)
    return pipelines(sources, _DRONE, _WORDS, _workflow)


def _workflow(source: Source) -> Workflow | None:
    """Return the meaning of a document; None, with a note of why, if all of it is left out."""
    document, omissions = source.document, source.omissions
    try:
        only(document, _KEYS, source.name)
        _check(source.name, document)
        found = FilterReader(_WORDS, omissions).read(document.get("trigger"), "trigger")
        if found.cells:
            raise LeftOut(document.get("trigger"), "trigger.matrix", "it has no counterpart here")
        if found.statuses == {"failure"} and not source.waits_for:
            raise LeftOut(document.get("trigger"), "trigger.status", "it waits for no other pipeline (`depends_on`)")
    except LeftOut as left_out:
        omissions.lose(left_out.at, left_out.key, f"all of {label(source.name)} is left out: {left_out.why}")
        return None
    if not found.builds:
        omissions.add(document.get("trigger"), "trigger", "it never runs: nothing is built for its events")
        return None
    clone, workspace = document.get("clone"), document.get("workspace")
    if not clone.get("disable").is_off:
        omissions.lose(clone, "clone.disable", "the source is there in each job, also where it is not asked for")
    if clone.get("depth").value is not None:
        omissions.add(clone, "clone.depth", "builds have the last 50 commits, whatever this says")
    if workspace.value is not None:
        omissions.lose(workspace, "workspace", "the source is in /workspace: name no other folder in commands")
    if (turns := document.get("concurrency")).value is not None:
        why = "`ci-daemon pipeline edit ORG/PIPELINE --concurrency-group NAME` lets builds take turns"
        omissions.add(turns, "concurrency", why)
    steps = tuple((name, _with(step, document.get("environment"))) for name, step in steps_of(document.get("steps")))
    return Workflow(source.name, steps, found, source.waits_for, services=document.get("services"), at=document)


def _with(step: Located, environment: Located) -> Located:
    """Return a step with the variables of its pipeline below its own."""
    if not environment.mapping():
        return step
    own = step.get("environment")
    both = (own if own.mapping() else environment).with_value({**environment.mapping(), **own.mapping()})
    return step.with_value({**step.mapping(), "environment": both})


def _check(name: str, document: Located) -> None:
    """Raise LeftOut for what a whole pipeline needs and is not there."""
    kind = document.get("type").text or "docker"
    if kind not in {"docker", "kubernetes"}:
        raise LeftOut(document.get("type"), f"{name}.type", f"pipelines of type {label(kind)} have no image to run in")
    for key, expected in (("os", "linux"), ("arch", "amd64")):
        given = document.get("platform", key)
        if given.scalar not in {None, expected}:
            raise LeftOut(given, f"{name}.platform.{key}", "jobs run on linux/amd64 alone")
    if (node := document.get("node")).value is not None:
        raise LeftOut(node, f"{name}.node", "jobs run on any host of this service")
