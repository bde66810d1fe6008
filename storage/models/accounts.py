"""People, how they sign in, and organizations."""

from __future__ import annotations

import peewee

from storage.models.row import ChoiceField, InstantField, ListField, Row
from storage.records.accounts import (
    CliLoginKind,
    Identity,
    Invite,
    Organization,
    OwnerSession,
    Passkey,
    PasskeyChallenge,
    Role,
    SignInLink,
    Token,
    User,
)


class OrganizationRow(Row, table="organizations", record=Organization):
    """An organization and its balance, which a trigger keeps."""

    balance_cents = peewee.IntegerField()
    closed_at = InstantField(null=True)


class UserRow(Row, table="users", record=User, joined=("personal_org_slug",)):
    """A person with an account, or a machine, whose personal organization is the one that it belongs to."""

    personal_organization = peewee.ForeignKeyField(OrganizationRow)
    closed_at = InstantField(null=True)


class TokenRow(Row, table="tokens", record=Token):
    """A bearer token, hashed: a personal API key or a session."""

    user = peewee.ForeignKeyField(UserRow)
    hash = peewee.BlobField()
    revoked_at = InstantField(null=True)
    scopes = ListField(null=True)
    organization = peewee.ForeignKeyField(OrganizationRow, null=True)
    pipeline_id = peewee.IntegerField(null=True)
    budget_cents = peewee.IntegerField(null=True)


class CliLoginRow(Row, table="handoffs"):
    """A session that a command line may take, under the hash of its nonce or code."""

    kind = ChoiceField(CliLoginKind)
    hash = peewee.BlobField()
    user = peewee.ForeignKeyField(UserRow)
    expires_at = InstantField()


class SignInLinkRow(Row, table="sign_in_links", record=SignInLink):
    """A sign-in link, hashed."""

    user = peewee.ForeignKeyField(UserRow, null=True)
    hash = peewee.BlobField()


class OwnerSessionRow(Row, table="owner_sessions", record=OwnerSession):
    """A session of the host's owner, or the link to it, hashed."""

    hash = peewee.BlobField()


class MembershipRow(Row, table="memberships", key=("user", "organization")):
    """A user's membership in an organization, with a role."""

    user = peewee.ForeignKeyField(UserRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    role = ChoiceField(Role)
    created_at = InstantField()


class InviteRow(Row, table="invites", record=Invite):
    """An invite to an organization, for one e-mail address."""

    organization = peewee.ForeignKeyField(OrganizationRow)
    inviter = peewee.ForeignKeyField(UserRow, null=True)
    hash = peewee.BlobField()


class IdentityRow(Row, table="identities", record=Identity):
    """A user's identity at a provider."""

    user = peewee.ForeignKeyField(UserRow)


class PasskeyHandleRow(Row, table="passkey_handles"):
    """The name of an account in its passkeys: random bytes."""

    user = peewee.ForeignKeyField(UserRow)
    handle = peewee.BlobField()


class PasskeyRow(Row, table="passkeys", record=Passkey, joined=("handle",)):
    """A passkey of an account."""

    user = peewee.ForeignKeyField(UserRow)


class PasskeyChallengeRow(Row, table="passkey_challenges", record=PasskeyChallenge):
    """A challenge, under the hash of its owner."""

    owner = peewee.BlobField()
