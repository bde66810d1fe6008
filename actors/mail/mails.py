"""The e-mail that the service sends to people: one method for each kind."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.front_end import FrontEnd
from actors.mail.letters import Letters, shown_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from actors.notifications.failed_steps import FailedStep
    from storage import Letter, Role, Storage

_log = logging.getLogger(__name__)

_MOST = 3
"""Mails of one kind to one address in 15 minutes, so that nobody can fill a stranger's mailbox."""

_BUILD = "build"
_MOST_BUILDS = 10
"""Mails about builds to one address in 15 minutes."""


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
        self, to: str, headline: str, subject_line: str, error: str, failed: Sequence[FailedStep], link: str
    ) -> Letter:
        """Return the letter about the end of a build.

        ``subject_line`` is the commit's, ``error`` is why the build failed as a whole, ``link`` leads to its page.
        """
        return self._letters.write(
            _BUILD,
            headline=headline,
            subject_line=subject_line,
            error=error,
            failed=failed,
            link=link,
            stop_link=f"{self._url}/account/mail/stop?token={self._storage.mail_opt_outs.token(to)}",
        )

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
