"""Authentication and access: the caller, and the records of the path that the caller may see.

Checks have the same order everywhere: 401, then 404 for organization, pipeline and build, then 403 for the role
(wire-decisions.md, "Everywhere", "Who may do what").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from api.errors.catalog import ApiError
from api.operations.operation import Membership
from api.operations.things import (
    build_of_path,
    is_member,
    member_build,
    member_organization,
    member_pipeline,
    readable_build,
    readable_pipeline,
)
from storage import Build, Caller, Pipeline, Role, Storage, TokenKind, Visibility

if TYPE_CHECKING:
    import falcon

    from api.middleware.rate_limits import RateLimits

_SEND_ONE = "send `Authorization: Bearer <token>`"


class Credentials(Protocol):
    """The proof in a request of who sends it."""

    def caller(self, req: falcon.Request) -> Caller | None:
        """Return the caller; None without a proof. Raises ApiError for a bad one that must not be ignored."""
        ...


class BearerTokens:
    """The tokens of the API, in the header ``Authorization``. Safe in any thread."""

    def __init__(self, storage: Storage, limits: RateLimits) -> None:
        self._storage = storage
        self._limits = limits

    def caller(self, req: falcon.Request) -> Caller | None:
        """Return the caller that the bearer token belongs to; None without a token.

        An invalid token is refused even if the request needs none: raises ApiError ``unauthorized``.
        """
        token = bearer_token(req)
        if token is None:
            return None
        caller = self._storage.tokens.caller(token)
        if caller is None:
            raise self._bad_token(req)
        req.context.caller = caller
        return caller

    def revoke(self, req: falcon.Request) -> None:
        """Revoke the bearer token; one that is already revoked or expired is no error.

        Raises ApiError ``unauthorized`` if there is no token or it is unknown.
        """
        token = bearer_token(req)
        if token is None:
            raise ApiError.unauthorized(_SEND_ONE)
        req.context.caller = self._storage.tokens.caller(token)
        if not self._storage.tokens.revoke(token):
            raise self._bad_token(req)

    def _bad_token(self, req: falcon.Request) -> ApiError:
        """Return the error for a bad token. Raises ApiError ``rate_limited`` after too many from one address."""
        self._limits.limit_failures(req)
        return ApiError.unauthorized("the token is unknown, revoked or expired")


class KnownCallers:
    """Middleware that tells the server whose requests have the credentials of this one (see Callers)."""

    def process_response(self, req: falcon.Request, *_: object) -> None:
        """Tell the user, if the request had one."""
        know = req.env.get("ci_daemon.know_caller")
        caller = getattr(req.context, "caller", None)
        if know is not None and isinstance(caller, Caller):
            know(caller.user.uuid)


class Access:
    """Turns a request's credentials and path into records, or raises ApiError. Safe in any thread."""

    def __init__(self, storage: Storage, credentials: Credentials) -> None:
        self._storage = storage
        self._credentials = credentials

    def caller(self, req: falcon.Request) -> Caller:
        """Return the caller. Raises ApiError ``unauthorized``."""
        caller = self.optional_caller(req)
        if caller is None:
            raise ApiError.unauthorized(_SEND_ONE)
        return caller

    def session(self, req: falcon.Request) -> Caller:
        """Return the caller, who must send a session token and not an API key.

        Raises ApiError ``unauthorized`` or ``session_required``.
        """
        caller = self.caller(req)
        if caller.kind is not TokenKind.SESSION:
            raise ApiError("session_required", "an API key cannot do this; send a session token")
        return caller

    def optional_caller(self, req: falcon.Request) -> Caller | None:
        """Return the caller; None if the request says nothing of one. Raises ApiError ``unauthorized``."""
        return self._credentials.caller(req)

    def wide_caller(self, req: falcon.Request) -> Caller | None:
        """Return the caller; None also if the token is for one place. Raises ApiError ``unauthorized``."""
        caller = self.optional_caller(req)
        return None if caller is None or caller.limits.of_one else caller

    def member(self, req: falcon.Request, org: str, at_least: Role = Role.MEMBER) -> Membership:
        """Return the caller as a member of the organization. Raises ApiError for 401, 404 and 403.

        If more of the path must be found before the role is checked, leave out ``at_least`` and call `Member.require`
        later.
        """
        member = Membership(*member_organization(self._storage, self.caller(req), org))
        member.require(at_least)
        return member

    def pipeline(self, req: falcon.Request, org: str, pipeline: str) -> tuple[Membership, Pipeline]:
        """Return the caller's membership and the pipeline. Raises ApiError for 401 and 404."""
        member = self.member(req, org)
        return member, member_pipeline(self._storage, member.organization.id, pipeline)

    def build(self, req: falcon.Request, org: str, pipeline: str, number: str) -> Build:
        """Return the build, for a member of its organization. Raises ApiError for 401 and 404."""
        return member_build(self._storage, self.caller(req), org, pipeline, number)

    def readable_pipeline(self, req: falcon.Request, org: str, pipeline: str) -> Pipeline:
        """Return a pipeline whose builds the caller may read, as a member or because it is public.

        Raises ApiError for 401 and 404.
        """
        return readable_pipeline(self._storage, self.optional_caller(req), org, pipeline)

    def readable_build(self, req: falcon.Request, org: str, pipeline: str, number: str) -> Build:
        """Return a build that the caller may read, as a member or because the pipeline is public.

        Raises ApiError for 401 and 404.
        """
        caller = self.optional_caller(req)
        build = readable_build(self._storage, caller, org, pipeline, number)
        if caller is not None and not caller.limits.within(build.organization_id, build.pipeline_id):
            raise ApiError("token_scope", "the token is for one pipeline or organization alone, and this is not in it")
        return build

    def may_read(self, caller: Caller | None, build: Build) -> bool:
        """Tell whether the caller may read a build's jobs and logs."""
        if caller is not None and self.is_member(caller, build.organization_id):
            return caller.limits.within(build.organization_id, build.pipeline_id)
        pipeline = self._storage.pipelines.by_id(build.pipeline_id)
        return pipeline is not None and pipeline.visibility is Visibility.PUBLIC

    def is_member(self, caller: Caller, organization_id: int) -> bool:
        """Tell whether the caller is a member of an organization."""
        return is_member(self._storage, caller, organization_id)

    def build_by_path(self, org: str, pipeline: str, number: str) -> Build | None:
        """Return the build that a path names, without checking access; None if there is none."""
        return build_of_path(self._storage, org, pipeline, number)


def bearer_token(req: falcon.Request) -> str | None:
    """Return the bearer token; None if there is none.

    Raises ApiError ``unauthorized`` for another scheme.
    """
    if req.auth is None:
        return None
    scheme, _, token = req.auth.partition(" ")
    if scheme.lower() != "bearer":
        raise ApiError.unauthorized(f"send a Bearer token; the scheme {scheme[:20]!r} is not supported")
    return token.strip(" ")
