"""What the storage refuses, and why. Every message says what to do."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from storage.records import KeyUse, Role

__all__ = [
    "AlreadyInitialized",
    "BuildFinished",
    "CouponClaimed",
    "CouponExhausted",
    "CouponExpired",
    "CouponTaken",
    "CouponUnknown",
    "DatabaseBusy",
    "DatabaseGone",
    "DatabaseUnavailable",
    "DatabaseUnreadable",
    "EmailInvalid",
    "EmailTaken",
    "InviteInvalid",
    "InviteUnacceptable",
    "KeyUnreadable",
    "KeyUsed",
    "LastOwner",
    "ManifestUnreadable",
    "MemberNotFound",
    "MigrationFailed",
    "NameUnusable",
    "NotInitialized",
    "PipelineBusy",
    "PipelineGone",
    "RoleInsufficient",
    "SchemaTooNew",
    "SealBroken",
    "SecretInvalid",
    "SecretNotFound",
    "SlugTaken",
    "SoleOwner",
    "StorageClosed",
    "StorageError",
    "TooManyInvites",
    "TooManyOrganizations",
    "UsageTooLong",
]


class StorageError(Exception):
    """The root of everything that the storage raises on purpose."""


class NotInitialized(StorageError):
    """The state directory holds no storage yet, or is not there."""

    def __init__(self, directory: Path) -> None:
        command = f"ci-daemon --state-dir {shlex.quote(str(directory))} init"
        super().__init__(f"{directory} is not initialized: run `{command}`")


class AlreadyInitialized(StorageError):
    """The state directory holds a storage already."""


class SchemaTooNew(StorageError):
    """A newer release wrote the database."""


class MigrationFailed(StorageError):
    """A migration could not be applied; the database is as it was before it."""


class DatabaseUnreadable(StorageError):
    """The database file cannot be opened, or is no database of this service."""


class ManifestUnreadable(StorageError):
    """The manifest of a source archive is not there, or damaged."""


class DatabaseUnavailable(StorageError):
    """The database, or a file beside it, cannot be read or written now: the disk is full, read-only or broken.

    Worth another try, later.
    """


class DatabaseBusy(DatabaseUnavailable):
    """Others hold the database's write lock for too long. Worth another try."""


class DatabaseGone(DatabaseUnavailable):
    """The database's file cannot be opened, or is not the one any more that was opened first."""


class StorageClosed(StorageError):
    """The storage was closed, and is asked again."""


class KeyUnreadable(StorageError):
    """The key file is missing, open to others, or holds no key."""


class SealBroken(StorageError):
    """Sealed bytes were changed, or sealed with another key."""


class BuildFinished(StorageError):
    """The build is over, and stays as it ended."""


class KeyUsed(StorageError):
    """An earlier request has this key; ``use`` is what it made."""

    def __init__(self, use: KeyUse) -> None:
        super().__init__("an earlier request has this key: what it made is the answer to this one")
        self.use = use


class PipelineBusy(StorageError):
    """Builds of the pipeline are not over."""


class PipelineGone(StorageError):
    """The pipeline was deleted meanwhile."""


class MemberNotFound(StorageError):
    """The organization has no such member."""


class RoleInsufficient(StorageError):
    """Who asks is not, or not any more, what it takes: ``needed`` or more."""

    def __init__(self, needed: Role) -> None:
        super().__init__(f"this takes the role {needed}")
        self.needed = needed


class LastOwner(StorageError):
    """The organization would be left without an owner."""


class InviteInvalid(StorageError):
    """The address cannot be invited; the message says why."""


class TooManyInvites(StorageError):
    """The account has sent as many invites as it may in a day; ``retry_in`` is the seconds until it may send one."""

    def __init__(self, most: int, retry_in: int) -> None:
        super().__init__(f"one account sends at most {most} invites a day")
        self.retry_in = retry_in


class InviteUnacceptable(StorageError):
    """The invite does not let this user in; the message says why."""


class EmailInvalid(StorageError):
    """This is not one e-mail address."""


class EmailTaken(StorageError):
    """Another user has this e-mail address."""


class SecretInvalid(StorageError):
    """A secret's name or value cannot be one; the message begins with which of them it is."""


class SecretNotFound(StorageError):
    """A job names secrets that are not there."""

    def __init__(self, names: Sequence[str], organization: str, pipeline: str) -> None:
        super().__init__(
            f"no secret {', '.join(names)} is set for the pipeline {pipeline} or the organization {organization}: set"
            " it, or take it out of the step's runner_args.secrets"
        )


class SlugTaken(StorageError):
    """The organization has another pipeline of this slug."""


class SoleOwner(StorageError):
    """Others belong to organizations, ``slugs``, that the user alone owns."""

    def __init__(self, slugs: Sequence[str]) -> None:
        self.slugs = tuple(slugs)
        super().__init__(
            f"you are the only owner of {', '.join(slugs)}, which others belong to: make one of them an owner,"
            " or remove them"
        )


class NameUnusable(StorageError):
    """A name holds no character that a slug could be made of."""


class CouponTaken(StorageError):
    """Another coupon has this code."""


class CouponUnknown(StorageError):
    """No coupon has this code."""


class CouponClaimed(StorageError):
    """The organization has redeemed the coupon before."""


class CouponExpired(StorageError):
    """The coupon was to be redeemed earlier."""


class CouponExhausted(StorageError):
    """As many organizations have redeemed the coupon as may."""


class TooManyOrganizations(StorageError):
    """The account owns as many organizations as it may."""


class UsageTooLong(StorageError):
    """More leases started in a window than one answer holds."""
