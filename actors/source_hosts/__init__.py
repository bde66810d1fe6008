"""Source hosts: what they report, and what they are told (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.source_hosts.host import (
        DeliveryInvalid,
        DeliveryUnsigned,
        HostError,
        HostNotConfigured,
        Received,
        SourceHost,
    )
    from actors.source_hosts.plain_git import PlainGit
else:
    __getattr__ = on_first_use(__name__)

__all__ = [
    "DeliveryInvalid",
    "DeliveryUnsigned",
    "HostError",
    "HostNotConfigured",
    "PlainGit",
    "Received",
    "SourceHost",
]
