"""The audit of every change that is made through the API."""

from __future__ import annotations

import logging
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from api.operations import Operation, operation_of
from storage import DatabaseUnavailable

if TYPE_CHECKING:
    import falcon

    from api.addresses import Addresses
    from api.operations import Routes
    from api.request import ApiRequest
    from storage import Storage

__all__ = ["AuditTrail"]

_log = logging.getLogger(__name__)

_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_SIGN_INS = frozenset({"cliRedeem", "cliRedeemV2"})
"""Refusals of these are noted too. Nobody can make many: each address has a rate limit."""

_NAMES = ("number", "slug", "id", "uuid", "api_token")
"""Fields of records that name the row, the one that people use first. None of them is a secret."""

_NOBODY = "nobody"
_CLIENT_ERROR = 400
_RATE_LIMITED = 429


class AuditTrail:
    """Middleware that writes an entry for each request that has changed something: who, what, from where, which row.

    It knows operations by their routes, so that no resource can forget it. The entry is written when the change is,
    and before it is answered. Of the request it has the values in the path, of the answer the new row's name: no
    token, no query, no body.
    """

    def __init__(self, storage: Storage, routes: Routes, addresses: Addresses) -> None:
        self._audit = storage.audit
        self._routes = routes
        self._addresses = addresses

    def process_resource(
        self, req: ApiRequest, resp: falcon.Response, resource: object, params: dict[str, Any]
    ) -> None:
        """Note what the path names."""
        req.context.named = dict(params)

    def process_response(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001
    ) -> None:
        """Write the entry."""
        if req.method not in _CHANGING or req.uri_template is None:
            return
        operation = self._operations.get((req.uri_template, req.method))
        if operation is not None and (outcome := _outcome(operation, resp)) is not None:
            self._write(req, resp, operation, outcome)

    def _write(self, req: ApiRequest, resp: falcon.Response, operation: Operation, outcome: str) -> None:
        named: dict[str, str] = req.context.get("named") or {}
        parts = [named[part] for part in re.findall(r"{(\w+)}", req.uri_template or "") if part in named]
        row = _name_of(resp)
        subject = "/".join(parts if row is None or row in parts else [*parts, row])
        caller = req.context.get("caller")
        actor = _NOBODY if caller is None else caller.user.email
        organization = named.get("org") or _slug_of(resp)
        note = f"{outcome}request {req.request_id}"
        origin = self._addresses.exactly(req)
        try:
            self._audit.write(actor, operation.id, subject, note, origin=origin, organization=organization)
        except DatabaseUnavailable:
            said = {"actor": actor, "action": operation.id, "subject": subject, "origin": origin}
            _log.exception("a change is made, and cannot be written to the audit", extra=said)

    @cached_property
    def _operations(self) -> dict[tuple[str, str], Operation]:
        found = (
            (path, method.upper(), operation_of(responder)) for path, method, responder in self._routes.responders()
        )
        return {(path, method): operation for path, method, operation in found if operation is not None}


def _outcome(operation: Operation, resp: falcon.Response) -> str | None:
    """Say how a request ended that changed something; None where it changed nothing that is noted."""
    if resp.status_code < _CLIENT_ERROR:
        return ""
    if resp.context.get("build_number") is not None:
        return "rejected, "
    return "refused, " if operation.id in _SIGN_INS and resp.status_code < _RATE_LIMITED else None


def _name_of(resp: falcon.Response) -> str | None:
    """Return what names the row that was made or changed."""
    record = resp.context.get("record")
    for field in _NAMES:
        value = getattr(record, field, None)
        if field == "api_token" and value is not None:
            return str(value.id)
        if value is not None:
            return str(value)
    number = resp.context.get("build_number")
    return None if number is None else str(number)


def _slug_of(resp: falcon.Response) -> str | None:
    """Return the slug of the organization that is answered, where the path names none."""
    slug = getattr(resp.context.get("record"), "slug", None)
    return None if slug is None else str(slug)
