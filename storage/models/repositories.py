"""Repositories whose pushes are built."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.row import Row
from storage.records import Repository, RepositoryHead

__all__ = ["RepositoryHeadRow", "RepositoryRow"]


class RepositoryRow(Row, table="repositories", record=Repository):
    """A git repository of an organization."""

    organization = peewee.ForeignKeyField(OrganizationRow)
    token_hash = peewee.BlobField(null=True)


class RepositoryHeadRow(Row, table="repository_heads", record=RepositoryHead, key=("repository", "ref")):
    """The commit of a branch or tag that was looked at last."""

    repository = peewee.ForeignKeyField(RepositoryRow)
    commit = peewee.TextField(column_name="commit_sha")
