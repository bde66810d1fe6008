"""CLI login: hand a session from a browser to a command line (wire-decisions.md, "Authentication").

Either the command line polls with a nonce that it generated, or a person types a code into it. Versions 0 and 2 differ
in the body of `transfer`, and in whether a body may be left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, StringConstraints

from api.bodies import answer, read_body, read_optional_body
from api.errors.catalog import ApiError
from api.fields import NOT_BLANK, RequestBody, RequiredText, Text, not_blank
from api.openapi.operations import Answer, operation
from storage import JsonModel

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits
    from api.sign_in.sessions import SessionStart
    from storage import Caller, Storage

_SESSION_ERRORS = ("session_required",)
_CLAIM_ERRORS = ("cli_code_invalid", "rate_limited")

_Nonce = Annotated[str, StringConstraints(max_length=256), Field(examples=["q3Zr1LxV0bT8sYkN5wPd7g"])]
_CODE = "7H3K9QZ2M5RT8WXY"
_Code = Annotated[Text, Field(examples=[_CODE])]


class CliTokenResponse(JsonModel):
    """A session token, shown only once."""

    token: str


class CliCodeResponse(JsonModel):
    """A code to type into a command line within five minutes."""

    code: _Code


class CliTransferRequest(RequestBody):
    """The body of ``POST /api/v0/auth/cli/transfer``."""

    nonce: Annotated[_Nonce, StringConstraints(min_length=16)]


class CliTransferV2Request(RequestBody):
    """The body of ``POST /api/v2/auth/cli/transfer``: the lowercase hex SHA-256 of the nonce."""

    nonce_hash: Annotated[
        str,
        StringConstraints(pattern="^[0-9a-f]{64}$"),
        Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]),
    ]


class CliClaimV2Request(RequestBody):
    """The body of ``POST /api/v2/auth/cli/claim``."""

    nonce: Annotated[_Nonce, AfterValidator(not_blank), NOT_BLANK]


class CliClaimRequest(RequestBody):
    """The body of ``POST /api/v0/auth/cli/claim``; without a nonce the error is ``cli_code_invalid``."""

    nonce: _Nonce | None = None


class CliRedeemV2Request(RequestBody):
    """The body of ``POST /api/v2/auth/cli/redeem``."""

    code: Annotated[RequiredText, Field(examples=[_CODE])]


class CliRedeemRequest(RequestBody):
    """The body of ``POST /api/v0/auth/cli/redeem``; without a code the error is ``cli_code_invalid``."""

    code: _Code | None = None


_TRANSFERRED = Answer(204, "The session can be claimed with the nonce.")
_SESSION = Answer(200, "The session.", CliTokenResponse)
_NEW_CODE = Answer(200, "The code.", CliCodeResponse)


class CliLoginResource:
    """``/api/v0/auth/cli/…`` and ``/api/v2/auth/cli/…``."""

    def __init__(self, storage: Storage, access: Access, limits: RateLimits, sessions: SessionStart) -> None:
        self._storage = storage
        self._sessions = sessions
        self._access = access
        self._limits = limits

    @operation("cliTransfer", _TRANSFERRED, body=CliTransferRequest, errors=_SESSION_ERRORS)
    def on_post_transfer(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Let a command line claim a session of the caller by its nonce, once, within 60 seconds."""
        caller = self._signed_in(req, resp)
        body = read_optional_body(req, CliTransferRequest)
        self._storage.cli_logins.offer(caller.user.id, body.nonce)
        resp.status = 204

    @operation("cliTransferV2", _TRANSFERRED, body=CliTransferV2Request, errors=_SESSION_ERRORS)
    def on_post_transfer_v2(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Let a command line claim a session of the caller by the hash of its nonce.

        As in version 0, but only the command line knows the nonce.
        """
        caller = self._signed_in(req, resp)
        body = read_body(req, CliTransferV2Request)
        self._storage.cli_logins.offer_hashed(caller.user.id, bytes.fromhex(body.nonce_hash))
        resp.status = 204

    @operation(
        "cliClaim",
        _SESSION,
        body=CliClaimRequest,
        body_required=False,
        errors=_CLAIM_ERRORS,
        security="public",
        counted=False,
    )
    def on_post_claim(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Claim the session that was transferred to a nonce.

        Ask once a second until the person has signed in.
        """
        self._limits.limit_address(req, resp)
        body = read_optional_body(req, CliClaimRequest)
        self._respond_with_token(
            req, resp, self._storage.cli_logins.claim(body.nonce or "", self._sessions.origin(req))
        )

    @operation("cliClaimV2", _SESSION, body=CliClaimV2Request, errors=_CLAIM_ERRORS, security="public", counted=False)
    def on_post_claim_v2(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Claim the session that was transferred to a nonce.

        Ask once a second until the person has signed in.
        """
        self._limits.limit_address(req, resp)
        body = read_body(req, CliClaimV2Request)
        self._respond_with_token(req, resp, self._storage.cli_logins.claim(body.nonce, self._sessions.origin(req)))

    @operation("cliCode", _NEW_CODE, errors=_SESSION_ERRORS)
    def on_post_code(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get a code for one session of the caller, to type into a command line within 300 seconds."""
        self._answer_code(req, resp)

    @operation("cliCodeV2", _NEW_CODE, errors=_SESSION_ERRORS)
    def on_post_code_v2(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get a code for one session of the caller, as in version 0."""
        self._answer_code(req, resp)

    @operation(
        "cliRedeem",
        _SESSION,
        body=CliRedeemRequest,
        body_required=False,
        errors=_CLAIM_ERRORS,
        security="public",
        counted=False,
    )
    def on_post_redeem(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Redeem a code for its session.

        Case, spaces and dashes in the code are ignored.
        """
        self._limits.limit_address(req, resp)
        body = read_optional_body(req, CliRedeemRequest)
        self._respond_with_token(
            req, resp, self._storage.cli_logins.redeem(body.code or "", self._sessions.origin(req))
        )

    @operation("cliRedeemV2", _SESSION, body=CliRedeemV2Request, errors=_CLAIM_ERRORS, security="public", counted=False)
    def on_post_redeem_v2(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Redeem a code for its session.

        Case, spaces and dashes in the code are ignored.
        """
        self._limits.limit_address(req, resp)
        body = read_body(req, CliRedeemV2Request)
        self._respond_with_token(req, resp, self._storage.cli_logins.redeem(body.code, self._sessions.origin(req)))

    def _signed_in(self, req: falcon.Request, resp: falcon.Response) -> Caller:
        self._limits.limit_address(req, resp)
        caller = self._access.session(req)
        self._limits.limit_account(caller, resp)
        return caller

    def _answer_code(self, req: falcon.Request, resp: falcon.Response) -> None:
        caller = self._signed_in(req, resp)
        resp.cache_control = ["no-store"]
        answer(resp, CliCodeResponse(code=self._storage.cli_logins.issue_code(caller.user.id)))

    def _respond_with_token(self, req: falcon.Request, resp: falcon.Response, token: str | None) -> None:
        if token is None:
            raise ApiError(
                "cli_code_invalid",
                "no session to claim: the nonce or code is unknown, used or expired, or the sign-in is not finished",
            )
        req.context.caller = self._storage.tokens.caller(token)
        resp.cache_control = ["no-store"]
        answer(resp, CliTokenResponse(token=token))
