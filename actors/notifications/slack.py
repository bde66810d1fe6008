"""Messages for incoming webhooks of Slack, and of Mattermost and Discord, which take Slack's. Pure.

Slack shows the blocks, the others the text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from actors.notifications.build_texts import headline, subject_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.notifications.failed_steps import FailedStep
    from storage import Build, BuildEvent

_LONGEST = 500
_QUIET_AT = "@\u200b"
"""An @ that calls nobody: Mattermost and Discord know @channel and @everyone in plain text."""


def slack_message(event: BuildEvent, build: Build, page: str, failed: Sequence[FailedStep]) -> str:
    """Return the message of a build's event, as JSON."""
    title = f"<{page}|{_escaped(headline(event, build))}>"
    lines = [_escaped(line) for line in (subject_line(build), build.error_message or "") if line]
    lines += [f"• {_escaped(step.name)}: {_escaped(step.reason)}" for step in failed]
    return _message("\n".join((f"*{title}*", *lines)))


def slack_test(pipeline: str) -> str:
    """Return the message of a test, as JSON."""
    return _message(f"This message shows that builds of {_escaped(pipeline)} can be told here.")


def _message(text: str) -> str:
    return json.dumps({"text": text, "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": text}}]})


def _escaped(text: str) -> str:
    """Return a text in which nothing is a link, a mention or a line end."""
    line = " ".join(text.split())[:_LONGEST]
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", _QUIET_AT)
