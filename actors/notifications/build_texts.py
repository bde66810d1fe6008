"""Texts about a build for messages: its outcome, and its commit. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import BuildEvent, BuildState

if TYPE_CHECKING:
    from storage import Build

_SHORT_COMMIT = 12


def headline(event: BuildEvent, build: Build) -> str:
    """Return the event of a build in a few words: "acme/web has failed on main: build 12"."""
    outcome = {
        BuildEvent.FIRST_FAILURE: "has failed",
        BuildEvent.RECOVERED: "passes again",
        BuildEvent.FINISHED: {
            BuildState.PASSED: "passed",
            BuildState.FAILED: "failed",
            BuildState.CANCELED: "was canceled",
        }.get(build.state, build.state.value),
    }[event]
    branch = f" on {build.branch}" if build.branch else ""
    return f"{build.organization_slug}/{build.pipeline_slug} {outcome}{branch}: build {build.number}"


def subject_line(build: Build) -> str:
    """Return the commit, unless it is git's null commit, and the first line of its message."""
    commit, message = build.commit or "", (build.message or "").strip().partition("\n")[0].strip()
    return f"{commit[:_SHORT_COMMIT] if commit.strip('0') else ''} {message}".strip()
