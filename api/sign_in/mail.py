"""The mail that people ask for before they have signed in: links to sign up and to recover an account.

Each request takes the same work, whether the address has an account, may have one or may not: a link and a mail. So
neither the response nor its time tells a stranger who has an account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import EmailInvalid, SignInLinkKind, SignUpClosed, email_address

if TYPE_CHECKING:
    from datetime import datetime

    from actors.mail import Mails
    from storage import SignUpPolicy, Storage, User


class SignInMail:
    """Writes the links and the mails. An address that is none is ignored. Safe in any thread."""

    def __init__(self, storage: Storage, mails: Mails, policy: SignUpPolicy) -> None:
        self._storage = storage
        self._mails = mails
        self._policy = policy

    def sign_up(self, email: str, name: str) -> None:
        """Send a link to sign up; to one who has an account, a magic link; to one who may not, the reason."""
        address = _address(email)
        if address is None:
            return
        with self._storage.transaction():
            closed = self._reason_of_refusal(address)
            user = self._storage.users.by_email(address)
            if user is not None:
                self._mails.has_account(address, *self._magic_link(user))
                return
            token, expires_at = self._verification(address, name)
            if closed is None:
                self._mails.verification(address, name, token, expires_at)
            else:
                self._mails.sign_up_closed(address, closed, expires_at)

    def recovery(self, email: str) -> None:
        """Send a magic link; to one who has no account, a mail that says so."""
        address = _address(email)
        if address is None:
            return
        with self._storage.transaction():
            user = self._storage.users.by_email(address)
            if user is None:
                _, expires_at = self._verification(address, "")
                self._mails.no_account(address, expires_at)
            else:
                self._mails.magic_link(address, user.name, *self._magic_link(user))

    def _reason_of_refusal(self, address: str) -> str | None:
        try:
            self._storage.sign_ups.check(address, self._policy)
        except SignUpClosed as error:
            return str(error)
        return None

    def _magic_link(self, user: User) -> tuple[str, datetime]:
        return self._link(SignInLinkKind.MAGIC_LINK, self._storage.sign_in_links.magic_link(user))

    def _verification(self, address: str, name: str) -> tuple[str, datetime]:
        """Make a link for an address without an account, also if nobody gets it: to make one takes time."""
        return self._link(SignInLinkKind.VERIFICATION, self._storage.sign_in_links.verification(address, name))

    def _link(self, kind: SignInLinkKind, token: str) -> tuple[str, datetime]:
        """Return a new link's token and its expiry."""
        link = self._storage.sign_in_links.read(kind, token)
        if link is None:
            raise AssertionError("a link that this transaction made is not there")
        return token, link.expires_at


def _address(email: str) -> str | None:
    try:
        return email_address(email)
    except EmailInvalid:
        return None
