"""The audit of every change that is made through the API."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from api.body import OwnEntry
from storage import DatabaseUnavailable, NewEntry, pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    import falcon

    from api.middleware.client_addresses import ClientAddresses
    from api.openapi.operations import Endpoint, Routes
    from api.request import ApiRequest
    from storage import Storage

_log = logging.getLogger(__name__)

_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_SIGN_IN_PATH = pattern(r"/api/v\d+/auth/")
"""Paths whose refusals are noted too, unless they need a token; limits by address bound their number."""

_POLLS = frozenset({"cliClaim", "cliClaimV2"})
"""Polls of command lines, refused each second until a person has signed in."""

_NAMES = ("number", "slug", "id", "uuid", "api_token", "address")
"""Fields of records that name a row, in order of preference. None of them is a secret."""

_ANSWERS = frozenset({"approveJob", "rejectJob"})
_SECRETS = frozenset({"setOrganizationSecret", "limitOrganizationSecret", "setPipelineSecret", "limitPipelineSecret"})
_LIMITS = ("branches", "tags", "events", "environments", "pipelines")
_MAX_CHARS = 300
_NOBODY = "nobody"
_CLIENT_ERROR = 400
_RATE_LIMITED = 429


class AuditTrail:
    """Middleware that writes an audit entry for each request that changed something.

    It finds the operation by route and method, and `Routes` accepts no responder that changes something without one: a
    page's form has the operation that it performs. The entry is written after the change and before the response is
    sent, unless the operation has written it with the change. It contains values of the path, the new row's name, the
    reason of an answer to a gate and the limits of a secret; no token, query or other part of a body.
    """

    def __init__(self, storage: Storage, routes: Routes, addresses: ClientAddresses) -> None:
        self._audit = storage.audit
        self._routes = routes
        self._addresses = addresses

    def process_resource(
        self, req: ApiRequest, resp: falcon.Response, resource: object, params: dict[str, Any]
    ) -> None:
        """Note the parameters of the path, and what gives an operation its entry, if it writes that itself."""
        req.context.named = dict(params)
        if req.method in _CHANGING:
            req.context.own_entry = self._own_entry

    def process_response(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001 - falcon's signature
    ) -> None:
        """Write the entry."""
        endpoint = None if req.uri_template is None else self._routes.endpoint(req.uri_template, req.method)
        if endpoint is None or endpoint.method.upper() not in _CHANGING:
            return
        outcome = _outcome(endpoint, resp)
        if outcome is None or req.context.get("audited"):
            return
        said = outcome or detail_of(endpoint.operation.id, resp.context.get("record"))
        entry = self._entry(req, resp, endpoint.operation.id, said)
        try:
            self._audit.add(entry)
        except DatabaseUnavailable:
            change = {name: getattr(entry, name) for name in ("actor", "action", "subject", "origin")}
            _log.exception("a change was made but could not be written to the audit", extra=change)

    def _own_entry(self, req: ApiRequest, resp: falcon.Response) -> OwnEntry:
        def make() -> NewEntry:
            operation = self._routes.operation(req.uri_template or "", req.method)
            if operation is None:
                raise TypeError(f"{req.uri_template} changes something without an operation")
            return self._entry(req, resp, operation.id)

        def wrote() -> None:
            req.context.audited = True

        return OwnEntry(make, wrote)

    def _entry(self, req: ApiRequest, resp: falcon.Response, operation: str, said: str = "") -> NewEntry:
        """Return the entry of a request, with the beginning of its note; the answer may not be there yet."""
        path, named = req.uri_template or "", req.context.get("named") or {}
        record = resp.context.get("record")
        caller = req.context.get("caller")
        effect = getattr(record, "effect", None)
        door = "console" if self._routes.is_page(path, req.method) else "api"
        return NewEntry(
            actor=req.context.get("actor") or (_NOBODY if caller is None else caller.user.email),
            action=operation,
            subject=subject_of(path, named, record, resp.context.get("build_number")),
            note=f"{said}{'' if effect is None else f'{effect}, '}{door}, request {req.request_id}",
            origin=self._addresses.address(req),
            organization=named.get("org") or _slug_of(resp),
        )


def _outcome(endpoint: Endpoint, resp: falcon.Response) -> str | None:
    """Return a prefix for the note; None if there is nothing to note."""
    operation = endpoint.operation
    if resp.context.get("build_number") is not None:
        return "rejected, "
    if resp.status_code < _CLIENT_ERROR:
        return "" if operation.changes else None
    signs_in = operation.security == "public" and _SIGN_IN_PATH.match(endpoint.path) is not None
    return "refused, " if signs_in and operation.id not in _POLLS and resp.status_code != _RATE_LIMITED else None


def subject_of(path: str, names: Mapping[str, str], record: object, build_number: int | None = None) -> str:
    """Return the subject of an entry: the names in the path, and that of the row in the answer."""
    parts = [names[part] for part in re.findall(r"{(\w+)}", path) if part in names]
    row = _name_of(record, build_number)
    named = "/".join(parts)
    if row is None or row in parts:
        return named
    return row if row.startswith(f"{named}/") else "/".join([*parts, row])


def detail_of(operation: str, record: object) -> str:
    """Return the beginning of a note: why a gate was answered, the limits of a secret; empty for others."""
    if operation in _ANSWERS:
        reason = getattr(getattr(record, "gate", None), "reason", None)
        return f'reason "{_line(reason)}", ' if reason else ""
    if operation not in _SECRETS:
        return ""
    limits = {kind: getattr(record, kind, ()) for kind in _LIMITS}
    texts = [f"{kind} {' '.join(map(_line, patterns))}" for kind, patterns in limits.items() if patterns]
    source = getattr(record, "source", None)
    texts += [f"from {_line(source['url'])}"] if source else []
    return f"{'; '.join(texts) or 'no limits'}, "


def _line(text: str) -> str:
    """Return a text as one line that is not too long."""
    shown = "".join(each if each.isprintable() else " " for each in text[:_MAX_CHARS])
    return f"{shown}…" if len(text) > _MAX_CHARS else shown


def _name_of(record: object, build_number: int | None) -> str | None:
    """Return the name of the row that was created or changed."""
    for field in _NAMES:
        value = getattr(record, field, None)
        if field == "api_token" and value is not None:
            return str(value["id"] if isinstance(value, dict) else value.id)  # as a record, or shown on the box
        if value is not None:
            return str(value)
    return None if build_number is None else str(build_number)


def _slug_of(resp: falcon.Response) -> str | None:
    """Return the slug of the organization in the response, for paths without one."""
    slug = getattr(resp.context.get("record"), "slug", None)
    return None if slug is None else str(slug)
