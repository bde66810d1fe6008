"""Errors of the storage, each with a message that says what to do."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from storage.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from storage.records.accounts import Role
    from storage.records.builds import KeyUse


class StorageError(Exception):
    """Base class of all errors that the storage raises on purpose."""


class NotInitialized(StorageError):
    """The state directory does not exist or holds no storage."""

    def __init__(self, directory: Path) -> None:
        command = f"ci-daemon --state-dir {shlex.quote(str(directory))} init"
        super().__init__(f"{directory} is not initialized: run `{command}`")


class AlreadyInitialized(StorageError):
    """The state directory already holds a storage."""


class SchemaTooNew(StorageError):
    """A newer release migrated the database."""


class MigrationFailed(StorageError):
    """A migration failed; the database is as it was before it."""


class DatabaseUnreadable(StorageError):
    """The database file cannot be opened, or is not a database of this service."""


class DatabaseDamaged(DatabaseUnreadable):
    """A page of the database is damaged; the message says what to do."""


class ManifestUnreadable(StorageError):
    """The manifest of a source archive is missing or damaged."""


class DatabaseUnavailable(StorageError):
    """The database or a file beside it cannot be used now: the disk is full, read-only or broken.

    The caller may retry later.
    """


class DatabaseNotSynced(DatabaseUnavailable):
    """The disk did not keep what was written to the database: it may be stored, or not."""


class DatabaseBusy(DatabaseUnavailable):
    """Others held the database's write lock for too long. The caller may retry."""


class DatabaseGone(DatabaseUnavailable):
    """The database's file cannot be opened, or was removed or replaced since it was first opened."""


class StorageClosed(StorageError):
    """The storage is used after it was closed."""


class KeyUnreadable(StorageError):
    """The key file is missing, readable by others, or holds no key."""


class SealBroken(StorageError):
    """Sealed bytes were changed or moved, or sealed with another key."""


class BuildFinished(StorageError):
    """The build is finished and no longer changes."""


class KeyUsed(StorageError):
    """An earlier request used this idempotency key; ``use`` says what it created."""

    def __init__(self, use: KeyUse) -> None:
        super().__init__("an earlier request used this idempotency key: its build is the answer")
        self.use = use


class PipelineBusy(StorageError):
    """The pipeline has unfinished builds."""


class BuildNotFinished(StorageError):
    """Only a finished build is retried."""


class BuildBusy(StorageError):
    """A VM of a finished build is still there."""


class ApprovalNotAwaited(StorageError):
    """The build does not wait for an approval, or no longer."""


class GateNotAwaited(StorageError):
    """The gate of the job does not wait for an answer, or no longer."""


class EnvironmentExists(StorageError):
    """The organization has an environment of that name."""


class TooManyEnvironments(StorageError):
    """The organization has as many environments as it may."""


class MergeQueued(StorageError):
    """The branch or pull request is in the merge queue already."""


class MergeQueueFull(StorageError):
    """The merge queue of the repository has as many entries as it may."""


class TooManyProofs(StorageError):
    """An organization has as many proofs under way as it may."""


class TestQuarantined(StorageError):
    """A test is in quarantine already."""

    __test__ = False  # pytest would take it for tests


class TooManyQuarantined(StorageError):
    """A pipeline has as many tests in quarantine as it may."""


class JobsJoined(StorageError):
    """Jobs have joined the build since these were planned for it: plan them again."""


class PipelineGone(StorageError):
    """The pipeline was deleted."""


class TooManyBuilds(StorageError):
    """The organization has as many unfinished builds, or as many bytes of their sources, as it may."""


class SourceGone(StorageError):
    """The source archive of a build is no longer kept, so the build cannot be repeated."""


class MemberNotFound(StorageError):
    """The organization has no such member."""


class RoleInsufficient(StorageError):
    """The caller's role is lower than ``needed``, or the caller is no longer a member."""

    def __init__(self, needed: Role) -> None:
        super().__init__(f"this needs the role {needed}: ask a member who has it")
        self.needed = needed


class LastOwner(StorageError):
    """The organization would be left without an owner."""


class InviteInvalid(StorageError):
    """The address cannot be invited; the message says why."""


class TooManyInvites(StorageError):
    """The account reached its daily limit of invites; it may send the next one in ``retry_in`` seconds."""

    def __init__(self, most: int, retry_in: int) -> None:
        super().__init__(f"one account sends at most {most} invites a day: send the next one later")
        self.retry_in = retry_in


class InviteUnacceptable(StorageError):
    """The user cannot accept the invite; the message says why."""


class EmailInvalid(StorageError):
    """The text is not exactly one e-mail address."""


class PasskeyTaken(StorageError):
    """An account has this passkey already."""


class TooManyPasskeys(StorageError):
    """The account has the maximum number of passkeys."""


class LastPasskey(StorageError):
    """The passkey is the account's only way to sign in."""


class SignUpClosed(StorageError):
    """The person may not make an account; the message says why."""


class EmailUnproven(StorageError):
    """An identity provider does not vouch for an e-mail address of the person."""


class LastIdentity(StorageError):
    """The user could not sign in any more without this identity."""


class EmailTaken(StorageError):
    """Another user has this e-mail address."""


class SecretInvalid(StorageError):
    """The name, value or a limit of a secret is invalid; the message begins with ``name:`` or another."""


class SecretNotFound(StorageError):
    """A job names secrets that do not exist."""

    def __init__(self, names: Sequence[str], organization: str, pipeline: str) -> None:
        super().__init__(
            f"no secret {', '.join(names)} is set for the pipeline {pipeline} or the organization {organization}: set"
            " it, or take it out of the step's runner_args.secrets"
        )


class RegistryLoginInvalid(StorageError):
    """A login at a registry is malformed; the message says which part."""


class RegistryLoginMissing(StorageError):
    """A job names a registry at which its organization has no login; the message says what to do."""


class SecretNotAllowed(StorageError):
    """A job names a secret that is not for it; ``why`` says which limit it fails."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"the secret {name} is not for this job: {why}; run the step in a build that it is for, or have an admin"
            " change its limits"
        )


class SecretUnavailable(StorageError):
    """A secret could not be fetched from elsewhere; the message says why, and has nothing of the answer."""


class SlugTaken(StorageError):
    """The organization has another pipeline with this slug."""


class SoleOwner(StorageError):
    """The user is the only owner of organizations, ``slugs``, that have other members."""

    def __init__(self, slugs: Sequence[str]) -> None:
        self.slugs = tuple(slugs)
        super().__init__(
            f"you are the only owner of {', '.join(slugs)}, which other members use: make one of them an owner,"
            " or remove them"
        )


class NameUnusable(StorageError):
    """The name has no character that a slug may contain."""


class UserUnknown(StorageError):
    """No user has this e-mail address."""

    def __init__(self, email: str) -> None:
        super().__init__(f"there is no user {email}")


class CouponTaken(StorageError):
    """Another coupon has this code."""


class CouponUnknown(StorageError):
    """No coupon has this code."""


class CouponClaimed(StorageError):
    """The organization has already redeemed the coupon."""


class CouponExpired(StorageError):
    """The coupon has expired."""


class CouponExhausted(StorageError):
    """The coupon has been redeemed as often as it allows."""


class RepositoryConnected(StorageError):
    """The organization has connected this repository already."""


class HostConnectedElsewhere(StorageError):
    """The account at the source host is connected to another organization."""


class TooManyNotifications(StorageError):
    """The pipeline has the maximum number of notifications."""


class TooManySchedules(StorageError):
    """The pipeline has the maximum number of schedules."""


class MachineAccountExists(StorageError):
    """The organization has a machine account of this name."""


class TooManyMachineAccounts(StorageError):
    """The organization has the maximum number of machine accounts."""


class TooManyOrganizations(StorageError):
    """The account owns the maximum number of organizations."""


class UsageTooLong(StorageError):
    """The window has more days or leases than one answer may contain."""


_NUMBERS = pattern(r"\[(Errno -?\d+|SSL(: \w+)?)\] | \(_ssl\.c:\d+\)")


def error_reason(error: Exception) -> str:
    """Return why something failed, for people: "Connection refused", without "[Errno 111]" before it.

    An error without a text gives the name of its type. The text is used, and not ``strerror``, because libraries copy
    the text of an OSError into errors of their own.
    """
    nothing = "timed out" if isinstance(error, TimeoutError) else type(error).__name__
    return _NUMBERS.sub("", str(error)) or nothing
