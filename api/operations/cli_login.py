"""CLI login: hand a session from a browser to a command line (wire-decisions.md, "Authentication").

Either the command line polls with a nonce that it generated, or a person types a code into it. Versions 0 and 2 differ
in the body of `transfer`, and in whether a body may be left out.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from api.operations.operation import POST, SIGNED_IN, VISITORS, Call, done, operation, shown_once
from api.operations.things import AUTH, ThisUser
from storage import immutable

if TYPE_CHECKING:
    from api.fields import LoginCode, LongNonce, Nonce, NonceHash, RequiredLoginCode, RequiredNonce

_V0 = f"{AUTH}/cli"
_V2 = "/api/v2/auth/cli"

_transfer_operation = partial(
    operation, method=POST, answer=done("The session can be claimed with the nonce."), callers=SIGNED_IN
)
"""Declare an operation of a person who hands a session over."""

_code_operation = partial(operation, method=POST, answer=shown_once("The code."), callers=SIGNED_IN)
"""Declare one that issues a code for a session."""

_claim_operation = partial(
    operation,
    method=POST,
    answer=shown_once("The session."),
    errors=("cli_code_invalid", "rate_limited"),
    callers=VISITORS,
)
"""Declare an operation of a command line that takes a session."""


@immutable
class CliTokenResponse:
    """A session token, shown only once."""

    token: str


@immutable
class CliCodeResponse:
    """A code to type into a command line within five minutes."""

    code: LoginCode


@immutable
class CliTransferRequest:
    """The body of ``POST /api/v0/auth/cli/transfer``."""

    nonce: LongNonce


@immutable
class CliTransferV2Request:
    """The body of ``POST /api/v2/auth/cli/transfer``: the lowercase hex SHA-256 of the nonce."""

    nonce_hash: NonceHash


@immutable
class CliClaimRequest:
    """The body of ``POST /api/v0/auth/cli/claim``; without a nonce the error is ``cli_code_invalid``."""

    nonce: Nonce | None = None


@immutable
class CliClaimV2Request:
    """The body of ``POST /api/v2/auth/cli/claim``."""

    nonce: RequiredNonce


@immutable
class CliRedeemRequest:
    """The body of ``POST /api/v0/auth/cli/redeem``; without a code the error is ``cli_code_invalid``."""

    code: LoginCode | None = None


@immutable
class CliRedeemV2Request:
    """The body of ``POST /api/v2/auth/cli/redeem``."""

    code: RequiredLoginCode


@_transfer_operation("cliTransfer", path=f"{_V0}/transfer", body_required=False)
def transfer(call: Call, user: ThisUser, body: CliTransferRequest) -> None:
    """Let a command line claim a session of the caller by its nonce, once, within 60 seconds."""
    call.storage.cli_logins.offer(user.id, body.nonce)


@_transfer_operation("cliTransferV2", path=f"{_V2}/transfer")
def transfer_v2(call: Call, user: ThisUser, body: CliTransferV2Request) -> None:
    """Let a command line claim a session of the caller by the hash of its nonce.

    As in version 0, but only the command line knows the nonce.
    """
    call.storage.cli_logins.offer_hashed(user.id, bytes.fromhex(body.nonce_hash))


@_claim_operation("cliClaim", path=f"{_V0}/claim", body_required=False)
def claim(call: Call, body: CliClaimRequest) -> CliTokenResponse:
    """Claim the session that was transferred to a nonce.

    Ask once a second until the person has signed in.
    """
    return _claimed(call, call.storage.cli_logins.claim(body.nonce or "", call.visitor.origin))


@_claim_operation("cliClaimV2", path=f"{_V2}/claim")
def claim_v2(call: Call, body: CliClaimV2Request) -> CliTokenResponse:
    """Claim the session that was transferred to a nonce.

    Ask once a second until the person has signed in.
    """
    return _claimed(call, call.storage.cli_logins.claim(body.nonce, call.visitor.origin))


@_code_operation("cliCode", path=f"{_V0}/code")
def issue_code(call: Call, user: ThisUser) -> CliCodeResponse:
    """Get a code for one session of the caller, to type into a command line within 300 seconds."""
    return CliCodeResponse(call.storage.cli_logins.issue_code(user.id))


@_code_operation("cliCodeV2", path=f"{_V2}/code")
def issue_code_v2(call: Call, user: ThisUser) -> CliCodeResponse:
    """Get a code for one session of the caller, as in version 0."""
    return CliCodeResponse(call.storage.cli_logins.issue_code(user.id))


@_claim_operation("cliRedeem", path=f"{_V0}/redeem", body_required=False)
def redeem(call: Call, body: CliRedeemRequest) -> CliTokenResponse:
    """Redeem a code for its session.

    Case, spaces and dashes in the code are ignored.
    """
    return _claimed(call, call.storage.cli_logins.redeem(body.code or "", call.visitor.origin))


@_claim_operation("cliRedeemV2", path=f"{_V2}/redeem")
def redeem_v2(call: Call, body: CliRedeemV2Request) -> CliTokenResponse:
    """Redeem a code for its session.

    Case, spaces and dashes in the code are ignored.
    """
    return _claimed(call, call.storage.cli_logins.redeem(body.code, call.visitor.origin))


def _claimed(call: Call, token: str | None) -> CliTokenResponse:
    """Return the session that was handed over. Raises ApiError ``cli_code_invalid`` if there is none."""
    if token is None:
        raise ApiError(
            "cli_code_invalid",
            "no session to claim: the nonce or code is unknown, used or expired, or the sign-in is not finished",
        )
    call.visitor.is_now(token)
    return CliTokenResponse(token)
