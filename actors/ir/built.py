"""The event and the commit of a build, which conditions and names in text are about. Pure."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

EVENTS = ("push", "tag", "pull_request", "schedule", "pipeline", "manual")
"""The events of builds."""

MOST_INPUTS = 50
"""The most inputs of a pipeline, and of a build."""

MAX_INPUT_CHARS = 1024
"""The most characters of an input's value."""

_MANUAL = "manual"

EVENT_VARIABLE = "CI_EVENT"
"""The variable of a build that keeps its event, also for builds that repeat it."""

CONTAINERS_VARIABLE = "CI_CONTAINERS"
"""The variable that is ``true`` for a job which builds and runs images."""


@immutable
class Built:
    """The event, branch and commit of a build, and its files that changed; None if they are not known.

    ``inputs`` are those that somebody gave it; ``number`` is empty as long as it has none.
    """

    event: str = _MANUAL
    branch: str = ""
    commit: str = ""
    tag: str = ""
    pull_request: str = ""
    target_branch: str = ""
    default_branch: str = ""
    repository: str = ""
    fork: bool = False
    number: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    changed: Collection[str] | None = None

    @classmethod
    def of(
        cls,
        *,
        branch: str,
        commit: str,
        source: str,
        env: Mapping[str, str],
        fork: bool,
        default_branch: str | None,
        repository: str | None,
        number: int | None = None,
        inputs: Mapping[str, str] | None = None,
        changed: Collection[str] | None = None,
    ) -> Built:
        """Return what a build is of, from its record and its variables."""
        pull_request = env.get("CI_PULL_REQUEST", "")
        return cls(
            event=event_of(env.get(EVENT_VARIABLE, source)),
            branch=branch,
            commit=commit,
            tag=env.get("CI_TAG", ""),
            pull_request=pull_request if pull_request.isascii() and pull_request.isdigit() else "",
            target_branch=env.get("CI_TARGET_BRANCH", ""),
            default_branch=default_branch or "",
            repository=repository or "",
            fork=fork,
            number="" if number is None else str(number),
            inputs=inputs or {},
            changed=changed,
        )

    @property
    def names(self) -> dict[str, str]:
        """The names in text that it gives a value, besides its inputs."""
        return {f"build.{name}": getattr(self, name) for name in NAMED}

    @property
    def asked(self) -> bool:
        """True if somebody asked for it."""
        return self.event == _MANUAL

    @property
    def changed_files(self) -> str:
        """The files that changed, a line each; empty if they are not known."""
        return "\n".join(self.changed or ())

    @property
    def facts(self) -> dict[str, object]:
        """The facts that a pipeline file in Python is told; of the changed files None if they are not known."""
        changed = None if self.changed is None else list(self.changed)
        more = {"fork": self.fork, "inputs": dict(self.inputs), "changed_files": changed}
        return {**{name: getattr(self, name) for name in NAMED}, **more}


def event_of(source: str) -> str:
    """Return the event of a build that came from a source: that of the same name, or a request."""
    return source if source in EVENTS else _MANUAL


NAMED = (
    "branch",
    "commit",
    "number",
    "tag",
    "event",
    "pull_request",
    "target_branch",
    "default_branch",
    "repository",
    "changed_files",
)
"""The fields that names in text stand for."""
