"""Every failure the API can answer with: its code, its status, what it means and what to do about it.

This table is the only place where a code meets a status. The error pages, the OpenAPI document and the tests are made
from it (wire-decisions.md, "Everywhere").
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CATALOG", "Problem"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of failure. ``code`` is what clients branch on; ``meaning`` and ``remedy`` are sentences for people."""

    code: str
    status: int
    meaning: str
    remedy: str

    @property
    def type(self) -> str:
        """The coarse kind of the failure, which follows the status."""
        return _TYPES[self.status]


_TYPES: Mapping[int, str] = MappingProxyType(
    {
        400: "invalid_request",
        401: "unauthorized",
        402: "billing",
        403: "forbidden",
        404: "not_found",
        405: "invalid_request",
        409: "conflict",
        410: "conflict",
        413: "invalid_request",
        415: "invalid_request",
        416: "invalid_request",
        422: "validation_failed",
        429: "rate_limited",
        431: "invalid_request",
        500: "server_error",
        502: "bad_gateway",
        503: "service_unavailable",
    }
)

_PROBLEMS = (
    Problem(
        "malformed_request",
        400,
        "The bytes that arrived are not a well-formed HTTP/1.1 request.",
        "Send the request with an HTTP library, and check proxies in between; the message names the broken part.",
    ),
    Problem(
        "malformed_json",
        400,
        "The body is not a JSON document in UTF-8.",
        "Send one JSON object. The message gives the line and column where reading stopped.",
    ),
    Problem(
        "cli_code_invalid",
        400,
        "No session waits under this nonce or code: it is unknown, used, expired, or was not transferred yet.",
        "Keep asking once a second while the person signs in; after 60 seconds start over, or ask for another code.",
    ),
    Problem(
        "unauthorized",
        401,
        "The request carries no bearer token, or one that is unknown, revoked or expired.",
        "Send `Authorization: Bearer <token>` with a valid API key or session token.",
    ),
    Problem(
        "log_stream_unauthorized",
        401,
        "A log was asked for without a valid log token.",
        "Ask the build's `log-token` endpoint for a token and give it as `?token=`; it is valid for one hour.",
    ),
    Problem(
        "billing_insufficient_balance",
        402,
        "The organization's balance is used up, so no new build starts.",
        "Top the balance up, redeem a coupon, or ask the operator for a grant; then create the build again.",
    ),
    Problem(
        "log_stream_forbidden",
        403,
        "The log token is valid, and belongs to another build.",
        "Ask for a token at the `log-token` endpoint of the build that the job is part of.",
    ),
    Problem(
        "session_required",
        403,
        "An API key was sent for what only a session may do: make API keys, or hand out sessions.",
        "Sign in, and send the session token. A session can be made on the box: `ci-daemon token create`.",
    ),
    Problem(
        "insufficient_org_role",
        403,
        "You are a member of the organization, and your role does not allow this.",
        "Ask an owner or an admin of the organization to do it, or to give you the role that the message names.",
    ),
    Problem(
        "pipeline_manual_disabled",
        403,
        "The pipeline does not take builds that are started by hand.",
        "Start the build by a push, or allow manual builds in the pipeline's settings.",
    ),
    Problem(
        "route_not_found",
        404,
        "No endpoint has this path.",
        "Check the path against the API reference; paths have no trailing slash.",
    ),
    Problem(
        "organization_not_found",
        404,
        "No organization with this slug has you as a member.",
        "List your organizations with `GET /api/v0/organizations`, or ask to be invited.",
    ),
    Problem(
        "pipeline_not_found",
        404,
        "The organization has no pipeline with this slug, or none that this repository has by this name.",
        "List the pipelines with `GET /api/v0/organizations/{org}/pipelines`.",
    ),
    Problem(
        "build_not_found",
        404,
        "The pipeline has no build with this number.",
        "List the builds with `GET /api/v0/organizations/{org}/pipelines/{pipeline}/builds`.",
    ),
    Problem(
        "job_not_found",
        404,
        "The build has no job with this id.",
        "List the build's jobs; job ids are UUIDs.",
    ),
    Problem(
        "source_not_found",
        404,
        "The runner token is of another build, or the build has no source archive on the service's disk.",
        "This endpoint is for the VMs that render builds; send the archive along with the build.",
    ),
    Problem(
        "render_log_not_found",
        404,
        "The build was not rendered here, so nothing was printed.",
        "Create builds from source, without `pipeline_ir`, to have their pipeline rendered here.",
    ),
    Problem(
        "artifact_not_found",
        404,
        "The build has no artifact with this id.",
        "List the build's artifacts; their ids are UUIDs, and a job's are there when its command has ended.",
    ),
    Problem(
        "secret_not_found",
        404,
        "The organization, or the pipeline, has no secret of this name.",
        "List the names with `GET …/secrets`; secrets of an organization are not listed with those of its pipelines.",
    ),
    Problem(
        "coupon_not_found",
        404,
        "There is no coupon with this code.",
        "Check the code; case and spaces do not matter. Coupons are given out by the operator.",
    ),
    Problem(
        "api_token_not_found",
        404,
        "You have no API key with this id, or it is revoked already.",
        "List your API keys with `GET /api/v0/user/api-tokens`; ids are UUIDs.",
    ),
    Problem(
        "member_not_found",
        404,
        "The organization has no member with this id.",
        "List the members with `GET /api/v0/organizations/{org}/members`; ids are the users' UUIDs.",
    ),
    Problem(
        "invite_not_found",
        404,
        "The organization has no pending invite with this id.",
        "List the pending invites; one that was accepted, revoked or is over cannot be revoked.",
    ),
    Problem(
        "method_not_allowed",
        405,
        "The endpoint exists and does not take this method.",
        "Use one of the methods in the `Allow` header.",
    ),
    Problem(
        "artifact_expired",
        410,
        "The build's artifacts are kept no longer: it finished too long ago, or artifacts took too much room.",
        "Download artifacts while they are kept; the operator says for how long in the configuration's `[retention]`.",
    ),
    Problem(
        "log_expired",
        410,
        "The job ran and its log is kept no longer: its build finished too long ago, or logs took too much room.",
        "Read logs while they are kept; the operator says for how long in the configuration's `[retention]`.",
    ),
    Problem(
        "pipeline_busy",
        409,
        "The pipeline cannot be deleted while builds of it are not over.",
        "Cancel its builds, or wait for their end, then delete it.",
    ),
    Problem(
        "idempotency_conflict",
        409,
        "Another request of yours in this organization had this `Idempotency-Key` in the last 24 hours.",
        "Give each build that you want a key of its own; send the same request again to see what it made.",
    ),
    Problem(
        "coupon_already_claimed",
        409,
        "The organization has redeemed this coupon already.",
        "A coupon is for each organization once; the ledger has its entry. There is nothing to do.",
    ),
    Problem(
        "sole_owner",
        409,
        "You alone own an organization that others belong to, so your account cannot be deleted.",
        "Make another member an owner of the organizations that the message names, or remove their members.",
    ),
    Problem(
        "last_owner",
        409,
        "The organization would be left without an owner.",
        "Make another member an owner first.",
    ),
    Problem(
        "body_too_large",
        413,
        "The body is larger than the service takes.",
        "Send a smaller source archive, without what the build can make, or have `http.max_body_bytes` raised.",
    ),
    Problem(
        "unsupported_media_type",
        415,
        "The body is not declared as JSON.",
        "Send `Content-Type: application/json`.",
    ),
    Problem(
        "range_not_satisfiable",
        416,
        "The log has no byte in the range that was asked for.",
        "`Content-Range` gives the log's size now. Where `X-Log-Complete` is false, ask again, best with `?wait=30`.",
    ),
    Problem(
        "invalid_body",
        422,
        "A field of the body is missing, has the wrong type, is blank or is too long.",
        "The message gives the field's JSON path and what was expected there.",
    ),
    Problem(
        "invalid_limit",
        422,
        "The page size is not a whole number from 1 to 100.",
        "Leave `limit` out for 50, or give a number from 1 to 100.",
    ),
    Problem(
        "invalid_cursor",
        422,
        "The cursor was not made by this service for this list.",
        "Use `next_cursor` of the previous page as it is, or leave `cursor` out to start at the first page.",
    ),
    Problem(
        "invalid_idempotency_key",
        422,
        "The header `Idempotency-Key` is empty or too long.",
        "Send 1 to 255 characters, or leave the header out.",
    ),
    Problem(
        "invalid_wait",
        422,
        "The time to wait for more log is not a number of seconds from 0 to 30.",
        "Leave `wait` out to be answered at once, or give a number from 0 to 30.",
    ),
    Problem(
        "pipeline_slug_taken",
        422,
        "The organization has a pipeline whose slug this name would get.",
        "Choose another name, or use the pipeline that is there.",
    ),
    Problem(
        "invalid_role",
        422,
        "There is no such role, or none that can be given here.",
        "Members are `owner`, `admin` or `member`; an invite gives `admin` or `member`.",
    ),
    Problem(
        "invite_invalid",
        422,
        "This e-mail address cannot be invited.",
        "The message says why: it is no address, belongs to a member, or has a pending invite.",
    ),
    Problem(
        "invite_unacceptable",
        422,
        "The invite does not let you in.",
        "The message says why: unknown, used, revoked, over, or for another e-mail address. Ask for a new one.",
    ),
    Problem(
        "build_invalid",
        422,
        "The source archive is not base64, or its SHA-256 is not the one that was given. No build was created.",
        "Send the archive's bytes in standard base64 with padding, and the SHA-256 of those bytes.",
    ),
    Problem(
        "build_plan_rejected",
        422,
        "The build was created and failed at once, because its pipeline cannot be planned.",
        "The message says why; `build_number` is the build that holds the same reason. Mend the pipeline, build again.",
    ),
    Problem(
        "billing_usage_window_invalid",
        422,
        "The usage window is not two ISO 8601 times with an offset, the second later, or is too long.",
        "Give `from` and `to` such as `2026-01-01T00:00:00Z`, with `+` written `%2B`. The message gives the bounds; ask"
        " for a long window in parts.",
    ),
    Problem(
        "coupon_expired",
        422,
        "The coupon may be redeemed no longer.",
        "Ask the operator for another one.",
    ),
    Problem(
        "coupon_exhausted",
        422,
        "As many organizations have redeemed the coupon as may.",
        "Ask the operator for another one.",
    ),
    Problem(
        "rate_limited",
        429,
        "Too many requests for credentials, or with tokens that are no good, came from one address or account.",
        "Try again after the seconds in `Retry-After`; `RateLimit-Remaining` says how many are left, of how many.",
    ),
    Problem(
        "headers_too_large",
        431,
        "The request line and headers are larger than the service takes.",
        "Send fewer or shorter headers.",
    ),
    Problem(
        "internal_error",
        500,
        "The service failed. It is not your fault.",
        "Try again; where it stays, give the operator the `request_id`, under which the log has the cause.",
    ),
    Problem(
        "draining",
        503,
        "The service is about to restart and takes no new builds.",
        "Try again in some seconds; running builds go on.",
    ),
    Problem(
        "busy",
        503,
        "The service could not do what was asked in time, or nothing can be rendered now: its message says which.",
        "Try again after the seconds in `Retry-After`.",
    ),
    Problem(
        "too_many_streams",
        503,
        "As many logs are being streamed as the service carries at once.",
        "Try again after the seconds in `Retry-After`, or read the log by ranges.",
    ),
)

CATALOG: Mapping[str, Problem] = MappingProxyType({problem.code: problem for problem in _PROBLEMS})
