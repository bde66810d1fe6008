# ruff: noqa: D106 - a model's Meta only names its table
"""People, organizations, pipelines."""

from __future__ import annotations

import peewee

from storage.models.fields import ChoiceField, FlagField, InstantField
from storage.records import HandoffKind, Role, TokenKind, Visibility

__all__ = ["HandoffRow", "InviteRow", "MembershipRow", "OrganizationRow", "PipelineRow", "TokenRow", "UserRow"]


class OrganizationRow(peewee.Model):
    """An organization and its balance, which a trigger keeps."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    slug = peewee.TextField()
    name = peewee.TextField()
    url = peewee.TextField()
    balance_cents = peewee.IntegerField()
    fail_fast = FlagField()
    weight = peewee.IntegerField()
    created_at = InstantField()
    closed_at = InstantField(null=True)

    class Meta:
        table_name = "organizations"


class UserRow(peewee.Model):
    """A person with an account."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    email = peewee.TextField()
    name = peewee.TextField()
    personal_organization = peewee.ForeignKeyField(OrganizationRow)
    created_at = InstantField()
    closed_at = InstantField(null=True)

    class Meta:
        table_name = "users"


class TokenRow(peewee.Model):
    """A bearer token, hashed: a personal API key or a session."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    user = peewee.ForeignKeyField(UserRow)
    kind = ChoiceField(TokenKind)
    hash = peewee.BlobField()
    description = peewee.TextField()
    created_at = InstantField()
    expires_at = InstantField(null=True)
    last_used_at = InstantField(null=True)
    revoked_at = InstantField(null=True)

    class Meta:
        table_name = "tokens"


class HandoffRow(peewee.Model):
    """A session that a command line may take, under the hash of its nonce or code."""

    id = peewee.AutoField()
    kind = ChoiceField(HandoffKind)
    hash = peewee.BlobField()
    user = peewee.ForeignKeyField(UserRow)
    expires_at = InstantField()

    class Meta:
        table_name = "handoffs"


class MembershipRow(peewee.Model):
    """A user's membership in an organization, with a role."""

    user = peewee.ForeignKeyField(UserRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    role = ChoiceField(Role)
    created_at = InstantField()

    class Meta:
        table_name = "memberships"
        primary_key = peewee.CompositeKey("user", "organization")


class InviteRow(peewee.Model):
    """An invite to an organization, for one e-mail address."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    organization = peewee.ForeignKeyField(OrganizationRow)
    inviter = peewee.ForeignKeyField(UserRow, null=True)
    email = peewee.TextField()
    role = ChoiceField(Role)
    hash = peewee.BlobField()
    created_at = InstantField()
    expires_at = InstantField()
    accepted_at = InstantField(null=True)
    revoked_at = InstantField(null=True)

    class Meta:
        table_name = "invites"


class PipelineRow(peewee.Model):
    """A pipeline and the number of its latest build."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    organization = peewee.ForeignKeyField(OrganizationRow)
    slug = peewee.TextField()
    name = peewee.TextField()
    repository = peewee.TextField()
    default_branch = peewee.TextField()
    visibility = ChoiceField(Visibility)
    allow_manual = FlagField()
    description = peewee.TextField(null=True)
    repo_name = peewee.TextField(null=True)
    source_slug = peewee.TextField(null=True)
    fail_fast = FlagField()
    last_number = peewee.IntegerField()
    created_at = InstantField()
    deleted_at = InstantField(null=True)

    class Meta:
        table_name = "pipelines"
