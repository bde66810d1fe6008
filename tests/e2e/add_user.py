"""A program that adds a user, and money for the organization.

It is faster than `ci-daemon user add` and `ledger grant`. Arguments are the state directory, the e-mail address and an
amount in cents; it prints the organization's slug and an API key as JSON.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

from storage import Storage, SystemClock
from tests.records import new_owner


def add_user(state: Path, email: str, cents: int) -> dict[str, str]:
    """Add a user; return the organization's slug and an API key."""
    with closing(Storage.open(state, SystemClock())) as storage:
        owner = new_owner(storage, email, email.partition("@")[0], cents)
    return {"org": owner.organization.slug, "token": owner.token}


if __name__ == "__main__":
    json.dump(add_user(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])), sys.stdout)
