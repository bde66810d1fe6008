"""Limits of secrets: the builds and jobs that may have one, as the service itself knows them. Pure.

A request's own word for its branch, commit or event counts for nothing here: see `Build.verified_ref`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from storage.errors import SecretInvalid
from storage.patterns import glob_matches
from storage.records.builds import HEADS, TAGS, VerifiedEvent
from storage.records.pipelines import SecretLimits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from storage.records.builds import Build
    from storage.records.pipelines import Secret, SecretLimitChanges

_MOST_PATTERNS = 50
_MAX_CHARS = 255
_EVENTS = frozenset(VerifiedEvent)
_NO_LIMITS = SecretLimits()


def limits_of(secret: Secret | None) -> SecretLimits:
    """Return the limits of a secret; none for one that does not exist yet."""
    if secret is None:
        return _NO_LIMITS
    return SecretLimits(secret.branches, secret.tags, secret.events, secret.environments, secret.pipelines)


def changed_limits(limits: SecretLimits, changes: SecretLimitChanges) -> SecretLimits:
    """Return limits with changes, sorted and each once. Raises SecretInvalid."""
    given: Mapping[str, Any] = changes
    kinds = ("branches", "tags", "events", "environments", "pipelines")
    return SecretLimits(*(_checked(kind, given.get(kind, getattr(limits, kind))) for kind in kinds))


def _checked(kind: str, patterns: Sequence[str]) -> tuple[str, ...]:
    if len(patterns) > _MOST_PATTERNS:
        raise SecretInvalid(f"{kind}: expected at most {_MOST_PATTERNS} patterns")
    for each in patterns:
        if not 1 <= len(each) <= _MAX_CHARS or not each.isprintable() or each.isspace():
            raise SecretInvalid(f"{kind}: expected patterns of 1 to {_MAX_CHARS} characters that can be shown")
        if kind == "events" and each not in _EVENTS:
            raise SecretInvalid(f"events: expected {', '.join(VerifiedEvent)}, not {each}")
        if kind in {"branches", "tags"} and each.startswith("refs/"):
            raise SecretInvalid(f"{kind}: expected the name alone, without the refs/ of {each}")
    return tuple(sorted(set(patterns)))


def is_limited(limits: SecretLimits) -> bool:
    """Tell whether a secret is not for every job."""
    return limits != _NO_LIMITS


def refusal(limits: SecretLimits, build: Build, environment: str | None) -> str | None:
    """Return why a job of a build may not have a secret; None if it may.

    ``environment`` is the one that the job's gate names.
    """
    return refusal_of_build(limits, build) or _refusal_of_environment(limits, environment)


def refusal_of_build(limits: SecretLimits, build: Build) -> str | None:
    """Return why no job of a build may have a secret; None if one may."""
    ref = build.verified_ref or ""
    if limits.branches or limits.tags:
        branch, tag = _name(ref, HEADS), _name(ref, TAGS)
        if not (_any_matches(limits.branches, branch) or _any_matches(limits.tags, tag)):
            kinds = (("branches", limits.branches), ("tags", limits.tags))
            allowed = " and ".join(f"the {kind} {', '.join(names)}" for kind, names in kinds if names)
            return f"it is limited to {allowed}, and this build is of {of_what(build)}"
    if limits.events and build.verified_event not in limits.events:
        return f"it is limited to the events {', '.join(limits.events)}, and this build's is {build.verified_event}"
    if limits.pipelines and not _any_matches(limits.pipelines, build.pipeline_slug):
        allowed = ", ".join(limits.pipelines)
        return f"it is limited to the pipelines {allowed}, and this one is {build.pipeline_slug}"
    return None


def _refusal_of_environment(limits: SecretLimits, environment: str | None) -> str | None:
    if not limits.environments or _any_matches(limits.environments, environment):
        return None
    named = "has no gate" if environment is None else f"has the gate of {environment}"
    return f"it is limited to the environments {', '.join(limits.environments)}, and this job {named}"


def of_what(build: Build) -> str:
    """Return what a build is of, in words, as far as the service has verified it."""
    ref = build.verified_ref
    if ref is None:
        if build.verified_event is VerifiedEvent.API:
            return "a source, pipeline or variables that a request brought, whatever branch it names"
        return "a commit that is not the head of a branch or tag"
    if ref.startswith(HEADS):
        return f'the branch "{ref.removeprefix(HEADS)}"'
    if ref.startswith(TAGS):
        return f'the tag "{ref.removeprefix(TAGS)}"'
    return f"pull request {ref.removeprefix('refs/pull/').removesuffix('/head')}"


def _name(ref: str, kind: str) -> str | None:
    return ref.removeprefix(kind) if ref.startswith(kind) else None


def _any_matches(patterns: Iterable[str], name: str | None) -> bool:
    return name is not None and any(glob_matches(each, name) for each in patterns)
