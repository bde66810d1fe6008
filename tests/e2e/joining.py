"""A program that adds a user, and money for the organization.

It is faster than `ci-daemon user add` and `ledger grant`. Arguments are the state directory, the e-mail address and an
amount in cents; it prints the organization's slug and an API key as JSON.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

from storage import LedgerSource, Storage, SystemClock


def join(state: Path, email: str, cents: int) -> dict[str, str]:
    """Add a user; return the organization's slug and an API key."""
    with closing(Storage.open(state, SystemClock())) as storage:
        user = storage.users.create(email, email.partition("@")[0])
        _, token = storage.tokens.create_api_key(user.id, "for the tests")
        organization = storage.organizations.by_slug(user.personal_org_slug)
        assert organization is not None
        if cents:
            storage.ledger.append(organization.id, cents, LedgerSource.ADMIN_GRANT, "for the tests")
    return {"org": user.personal_org_slug, "token": token}


if __name__ == "__main__":
    json.dump(join(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])), sys.stdout)
