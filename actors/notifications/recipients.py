"""The person who gets the mail about a build. Pure.

The author of a commit is what its pusher wrote there: anybody could make the service write to strangers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import EmailInvalid, email_address, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_NOBODY = "the build has no commit author, and to_creator is off"


@immutable
class Recipient:
    """The address that a build's mail goes to, or why nobody is written to."""

    address: str | None
    refusal: str | None = None


def recipient_of(
    candidate: str | None, members: Collection[str], domains: Collection[str], opted_out: Callable[[str], bool]
) -> Recipient:
    """Return the recipient of a build's mail.

    Args:
        candidate: the address of the commit's author, or of the build's creator.
        members: the addresses of the organization's members, which are proven.
        domains: those whose addresses get mail without an account.
        opted_out: tells whether an address wants no mail about builds.
    """
    if candidate is None:
        return Recipient(None, _NOBODY)
    try:
        address = email_address(candidate)
    except EmailInvalid:
        return Recipient(None, "the commit's author has no valid address")
    if address not in members and address.rpartition("@")[2] not in domains:
        return Recipient(address, "it is no member's address, and its domain is not in notifications.mail_domains")
    if opted_out(address):
        return Recipient(address, "its owner wants no mail about builds")
    return Recipient(address)
