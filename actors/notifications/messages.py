"""Messages about the ends of builds, as mails, Slack and webhooks take them."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import TYPE_CHECKING

from actors.mail import FailedStep
from actors.render import without_excerpts
from storage import BuildEvent, BuildState, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from actors.source_hosts import BuildPages
    from storage import Build, Job, Storage


_SHORT_COMMIT = 12
_MOST = 5
_TAIL_BYTES = 16 * 1024
_LINES = 20
_LONGEST_LINE = 200
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""A sequence that colours text or moves a terminal's cursor."""
_LONGEST = 500
_QUIET_AT = "@\u200b"
"""An @ that calls nobody: Mattermost and Discord know @channel and @everyone in plain text."""
TEST_EVENT = "notification.test"
"""The event of a delivery that somebody asked for, to try the endpoint."""


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
        BuildEvent.GATE_WAITING: "waits for an approval",
    }[event]
    branch = f" on {build.branch}" if build.branch else ""
    return f"{build.organization_slug}/{build.pipeline_slug} {outcome}{branch}: build {build.number}"


def subject_line(build: Build) -> str:
    """Return the commit, unless it is git's null commit, and the first line of its message."""
    return " ".join(part for part in _subject(build) if part)


def _subject(build: Build) -> tuple[str, str]:
    commit, message = build.commit or "", (build.message or "").strip().partition("\n")[0].strip()
    return commit[:_SHORT_COMMIT] if commit.strip("0") else "", message


def failed_steps(storage: Storage, build: Build) -> list[FailedStep]:
    """Return the first failed steps of a build. Their logs are masked as they are stored."""
    failed = [job for job in storage.jobs.of_build(build.id) if job.state.failed and not job.soft_failed]
    return [_failed_step(storage, build, job) for job in failed[:_MOST]]


def last_lines(log: bytes, *, whole: bool) -> tuple[str, ...]:
    """Return the last lines of a log. If it is not ``whole``, its first line is cut and left out."""
    lines = _ESCAPE.sub("", log.decode(errors="replace")).split("\n")
    shown = (_shown(line) for line in (lines if whole else lines[1:]))
    return tuple([line for line in shown if line][-_LINES:])


def _failed_step(storage: Storage, build: Build, job: Job) -> FailedStep:
    name, reason = (" ".join(text.split()) for text in (job.name or job.step_key, _reason(job)))
    return FailedStep(_shown(name), _shown(reason), _tail(storage, build, job))


def _shown(line: str) -> str:
    """Return what is left of a line on a screen: what follows the last return, without control characters."""
    text = line.rstrip("\r").rpartition("\r")[2].replace("\t", "    ").rstrip()
    printable = "".join(each for each in text if unicodedata.category(each)[0] != "C")
    return printable if len(printable) <= _LONGEST_LINE else f"{printable[:_LONGEST_LINE]}…"


def _tail(storage: Storage, build: Build, job: Job) -> tuple[str, ...]:
    log = storage.logs.reader(build.uuid, job.uuid)
    size = log.size()
    start = max(0, size - _TAIL_BYTES)
    return last_lines(log.read(start, size - start), whole=start == 0)


def _reason(job: Job) -> str:
    if job.state is JobState.TIMED_OUT:
        return "timed out"
    if job.error_message:
        return job.error_message
    return "failed" if job.exit_code is None else f"exit code {job.exit_code}"


def slack_message(event: BuildEvent, build: Build, page: str, failed: Sequence[FailedStep], pages: BuildPages) -> str:
    """Return the message of a build's event, as JSON, with links to its page and its source host's."""
    title = _link(page, headline(event, build))
    commit, message = _subject(build)
    parts = (_link(pages.commit, commit), _escaped(message), *(_link(at, name) for name, at in _origin(pages, build)))
    subject = " ".join(part for part in parts if part)
    lines = [line for line in (subject, _escaped(without_excerpts(build.error_message or ""))) if line]
    lines += [f"• {_escaped(step.name)}: {_escaped(step.reason)}" for step in failed]
    return _message("\n".join((f"*{title}*", *lines)))


def host_pages(pages: BuildPages) -> list[tuple[str, str]]:
    """Return the pages of a build at its source host, with their names, for a mail."""
    named = (("Pull request", pages.pull_request), ("Commit", pages.commit), ("Branch", pages.branch))
    return [(name, at) for name, at in named if at is not None]


def _origin(pages: BuildPages, build: Build) -> list[tuple[str, str]]:
    """Return the name and the address of a build's pull request, else of its branch; none without a page."""
    if pages.pull_request is not None:
        return [(f"pull request {pages.number}", pages.pull_request)]
    return [(build.branch, pages.branch)] if build.branch and pages.branch else []


def _link(address: str | None, text: str) -> str:
    return f"<{address}|{_escaped(text)}>" if address and text else _escaped(text)


def slack_gate(build: Build, step: str, environment: str, within: str, page: str) -> str:
    """Return the message about a job that waits for an approval, as JSON; ``page`` is where one gives it."""
    title = _link(page, f'{build.name}: "{step}" waits for an approval to deploy to {environment}')
    rest = (_escaped(subject_line(build)), f"Approve or reject it there within {within}.")
    return _message("\n".join((f"*{title}*", *(line for line in rest if line))))


def slack_test(pipeline: str) -> str:
    """Return the message of a test, as JSON."""
    return _message(f"This message shows that builds of {_escaped(pipeline)} can be told here.")


def _message(text: str) -> str:
    """Return a message for incoming webhooks of Slack, and of Mattermost and Discord, which take Slack's.

    Slack shows the blocks, the others the text.
    """
    return json.dumps({"text": text, "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": text}}]})


def _escaped(text: str) -> str:
    """Return a text in which nothing is a link, a mention or a line end."""
    line = " ".join(text.split())[:_LONGEST]
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", _QUIET_AT)


def webhook_body(event: str, build: Build, document: Mapping[str, object], page: str, at: datetime) -> str:
    """Return the body of a build's event; ``document`` is the build as the API shows it."""
    data = {
        "organization": build.organization_slug,
        "pipeline": build.pipeline_slug,
        "url": page,
        "build": document,
    }
    return _body(event, at, data)


def webhook_test(organization: str, pipeline: str, at: datetime) -> str:
    """Return the body of a test, without a build."""
    return _body(TEST_EVENT, at, {"organization": organization, "pipeline": pipeline})


def _body(event: str, at: datetime, data: Mapping[str, object]) -> str:
    stamp = at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return json.dumps({"type": event, "timestamp": stamp, "data": data})
