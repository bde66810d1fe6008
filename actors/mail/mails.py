"""The e-mail that the service sends to people: one method for each kind, and the letters it becomes."""

from __future__ import annotations

import logging
import re
import unicodedata
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from actors.settings import FrontEnd
from storage import Letter, immutable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jinja2 import Environment

    from storage import Role, Storage


_TEMPLATES = Path(__file__).parent / "templates"
_LONGEST_NAME = 60
_LINK = re.compile(r"[/@\\]|\w\.\w|:\S")
"""Characters of which mail programs may make a link, to a target that the writer of a name chose."""
_log = logging.getLogger(__name__)

_MOST = 3
"""Mails of one kind to one address in 15 minutes, so that nobody can fill a stranger's mailbox."""

_BUILD = "build"
_GATE = "gate"
_MOST_BUILDS = 10
"""Mails about builds to one address in 15 minutes."""


@immutable
class FailedStep:
    """A step that failed, why, and the last lines of its log."""

    name: str
    reason: str
    lines: tuple[str, ...]


class Letters:
    """Writes the letters of one service. Safe in any thread."""

    def __init__(self, url: str) -> None:
        """Store the address of the service, without a trailing slash."""
        self._url = url

    @cached_property
    def _templates(self) -> Environment:
        from jinja2 import (  # noqa: PLC0415 - 50 ms, which only those who write mails pay
            Environment,
            FileSystemLoader,
            StrictUndefined,
            select_autoescape,
        )

        templates = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=select_autoescape(("html",), default=False),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        templates.filters["until"] = _until
        return templates

    def write(self, kind: str, **values: object) -> Letter:
        """Return the letter of a kind, with values for its templates; texts in them become one line."""
        shown = {name: one_line(value) if isinstance(value, str) else value for name, value in values.items()}
        text = self._templates.get_template(f"{kind}.txt").render(url=self._url, **shown)
        subject, _, body = text.partition("\n")
        html = self._templates.get_template(f"{kind}.html").render(url=self._url, subject=subject, **shown)
        stop_link = shown.get("stop_link")
        return Letter(subject, body.lstrip("\n") + "\n", html, None if stop_link is None else str(stop_link))


def shown_name(name: str) -> str:
    """Return a person's name as a letter shows it; empty if it could pass for an address or a link.

    Anybody may ask for a letter to a stranger, with any name in it.
    """
    line = one_line(name)[:_LONGEST_NAME].strip()
    return "" if _LINK.search(line) else line


def one_line(text: str) -> str:
    """Return a text without line ends, control and formatting characters, such as those that reverse text."""
    return " ".join("".join(" " if unicodedata.category(each)[0] in "CZ" else each for each in text).split())


def _until(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"


class Mails:
    """Writes mails as rows, in the caller's transaction if there is one. Safe in any thread.

    No method waits for a mail server. Links lead to the console's pages, with the token in the fragment, so that no
    server's log has it.
    """

    def __init__(self, storage: Storage, url: str, front_end: FrontEnd | None = None) -> None:
        """Store the storage, and the service's address without a trailing slash.

        Links lead to the front end's pages, by default the console's at this address.
        """
        self._storage = storage
        self._url = url
        self._front_end = front_end or FrontEnd(url)
        self._letters = Letters(url)

    def verification(self, to: str, name: str, token: str, expires_at: datetime) -> None:
        """Write the mail that proves the address of a new account."""
        self._add(to, "verification", expires_at, name=shown_name(name), link=self._link(self._front_end.verify, token))

    def magic_link(self, to: str, name: str, token: str, expires_at: datetime) -> None:
        """Write the mail with a link that signs a user in."""
        self._add(to, "magic_link", expires_at, name=shown_name(name), link=self._link(self._front_end.recover, token))

    def has_account(self, to: str, token: str, expires_at: datetime) -> None:
        """Tell somebody who wants to sign up that the address has an account, with a magic link."""
        self._add(to, "has_account", expires_at, link=self._link(self._front_end.recover, token))

    def sign_up_closed(self, to: str, reason: str, expires_at: datetime) -> None:
        """Tell somebody who wants to sign up why the address may not have an account.

        After ``expires_at`` it is not sent any more: by then nobody waits for it.
        """
        self._add(to, "sign_up_closed", expires_at, reason=reason)

    def no_account(self, to: str, expires_at: datetime) -> None:
        """Tell somebody who asked for a link to sign in that the address has no account.

        It costs what `magic_link` costs, so that the time of an answer does not tell who has an account. After
        ``expires_at`` it is not sent any more.
        """
        self._add(to, "no_account", expires_at)

    def invite(self, to: str, inviter: str, organization: str, role: Role, token: str, expires_at: datetime) -> None:
        """Write the mail with an invite; ``inviter`` is an address, ``organization`` a slug."""
        self._add(
            to,
            "invite",
            expires_at,
            inviter=inviter,
            organization=organization,
            role=role.value,
            token=token,
            link=self._link(self._front_end.invite, token),
        )

    def test(self, to: str, pipeline: str) -> bool:
        """Write the mail that tests a pipeline's notifications; False if the address had too many."""
        return self._add(to, "test", None, why=f"Somebody asked for it, to test the notifications of {pipeline}.")

    def build_letter(
        self,
        to: str,
        headline: str,
        subject_line: str,
        pages: Sequence[tuple[str, str]],
        error: str,
        failed: Sequence[FailedStep],
        link: str,
    ) -> Letter:
        """Return the letter about the end of a build.

        ``subject_line`` is the commit's, ``pages`` are those at the source host by their names, ``error`` is why the
        build failed as a whole, ``link`` leads to its page.
        """
        return self._letters.write(
            _BUILD,
            headline=headline,
            subject_line=subject_line,
            pages=pages,
            error=error,
            failed=failed,
            link=link,
            stop_link=f"{self._url}/account/mail/stop?token={self._storage.mail_opt_outs.token(to)}",
        )

    def gate_letter(self, to: str, headline: str, subject_line: str, within: str, link: str) -> Letter:
        """Return the letter about a job that waits at a gate; ``within`` is the time that it waits."""
        return self._letters.write(
            _GATE,
            headline=headline,
            subject_line=subject_line,
            within=within,
            link=link,
            stop_link=f"{self._url}/account/mail/stop?token={self._storage.mail_opt_outs.token(to)}",
        )

    def gate(self, to: str, letter: Letter) -> bool:
        """Write the mail about a job that waits at a gate; False if the address had too many of them."""
        return self._store(to, _GATE, letter, None, _MOST_BUILDS)

    def build(self, to: str, letter: Letter) -> bool:
        """Write the mail about the end of a build; False if the address had too many of them."""
        return self._store(to, _BUILD, letter, None, _MOST_BUILDS)

    def _link(self, path: str, token: str) -> str:
        return f"{self._front_end.page(path)}#{token}"

    def _add(self, to: str, kind: str, expires_at: datetime | None, **values: object) -> bool:
        return self._store(to, kind, self._letters.write(kind, expires_at=expires_at, **values), expires_at, _MOST)

    def _store(self, to: str, kind: str, letter: Letter, expires_at: datetime | None, most: int) -> bool:
        if self._storage.mail.add(to, kind, letter, expires_at, most):
            return True
        why = f"it had {most} in 15 minutes, or too many mails wait"
        _log.warning("no mail (%s) is written to %s: %s", kind, to, why)
        return False
