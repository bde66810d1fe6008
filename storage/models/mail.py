"""E-mail."""

from __future__ import annotations

import peewee

from storage.models.row import Row
from storage.records import Mail

__all__ = ["MailRow"]


class MailRow(Row, table="mails", record=Mail):
    """An e-mail to one address; its sealed content goes when it is sent or given up."""

    content = peewee.BlobField(null=True)
