"""The first user of a new installation: an owner with an API key and credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.install.state import settings
from storage import immutable

if TYPE_CHECKING:
    from ci_daemon.install.host import Host
    from ci_daemon.install.release import Release

CREDIT_CENTS = 1000
"""The first credit of the first owner's organization, granted unless builds are free."""


@immutable
class NewOwner:
    """The future owner of the first organization."""

    email: str
    name: str


def is_needed(host: Host, release: Release) -> bool:
    """Tell whether the service has no organization yet."""
    return not host.call(release.command, "org", "list")


def create(host: Host, release: Release, new_owner: NewOwner) -> dict[str, object]:
    """Create the first owner and return the user's e-mail, organization, API key and link to sign in.

    Raises InstallError.
    """
    user = host.call(release.command, "user", "add", new_owner.email, "--name", new_owner.name)
    organization = str(user["personal_org_slug"])
    if not settings(host).billing.free:
        host.call(release.command, "ledger", "grant", organization, str(CREDIT_CENTS), "--note", "first credit")
    link = host.call(release.command, "user", "link", new_owner.email)["link"]
    return {"email": user["email"], "organization": organization, "token": user["token"], "link": link}
