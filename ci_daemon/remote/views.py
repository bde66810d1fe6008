"""The fields of the API's records that commands read; others are ignored."""

from __future__ import annotations

from storage import immutable


@immutable
class StatusView:
    """The answer of a service that is there."""

    status: str


@immutable
class TokenView:
    """A session token, shown only once."""

    token: str
