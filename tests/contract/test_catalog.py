"""The statuses of the errors."""

from __future__ import annotations

import pytest

from api import error_catalog

TABLE = "Errors"

TYPES = {
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
    422: "validation_failed",
    429: "rate_limited",
    500: "server_error",
    502: "bad_gateway",
    503: "service_unavailable",
    # Statuses of HTTP itself that the contract does not mention.
    416: "invalid_request",
    431: "invalid_request",
}
STATUSES = {
    "bitbucket_workspace_not_found": 404,
    "bitbucket_installation_bound_elsewhere": 409,
    "bitbucket_invalid_state": 403,
    "bitbucket_connect_failed": 502,
    "bitbucket_not_configured": 503,
    "repo_not_found": 404,
    "repo_connected_elsewhere": 409,
    "repo_connect_refused": 422,
    "source_host_failed": 502,
    "route_not_found": 404,
    "method_not_allowed": 405,
    "malformed_json": 400,
    "unsupported_media_type": 415,
    "body_too_large": 413,
    "rate_limited": 429,
    "internal_error": 500,
    "draining": 503,
    "invalid_body": 422,
    "invalid_limit": 422,
    "invalid_filter": 422,
    "invalid_cursor": 422,
    "unauthorized": 401,
    "session_required": 403,
    "token_scope": 403,
    "cli_code_invalid": 400,
    "oauth_provider_error": 502,
    "oauth_not_configured": 503,
    "signup_closed": 403,
    "identity_not_found": 404,
    "identity_last_credential": 409,
    "insufficient_org_role": 403,
    "last_owner": 409,
    "notification_not_found": 404,
    "notification_delivery_not_found": 404,
    "too_many_notifications": 409,
    "notification_without_endpoint": 409,
    "organization_not_found": 404,
    "member_not_found": 404,
    "invalid_role": 422,
    "invite_invalid": 422,
    "invite_unacceptable": 422,
    "pipeline_not_found": 404,
    "pipeline_slug_taken": 422,
    "pipeline_busy": 409,
    "pipeline_manual_disabled": 403,
    "billing_insufficient_balance": 402,
    "too_many_builds": 429,
    "build_invalid": 422,
    "build_plan_rejected": 422,
    "idempotency_conflict": 409,
    "log_expired": 410,
    "log_stream_unauthorized": 401,
    "log_stream_forbidden": 403,
    "too_many_streams": 503,
    "billing_usage_window_invalid": 422,
    "invalid_amount": 422,
    "billing_unconfigured": 503,
    "billing_provider_error": 502,
    "webhook_signature_invalid": 400,
    "delivery_id_invalid": 400,
    "delivery_event_missing": 400,
    "delivery_signature_invalid": 401,
    "source_host_unknown": 404,
    "source_host_not_configured": 503,
    "delivery_not_found": 404,
    "repo_reports_by_itself": 409,
    "github_installation_id_invalid": 422,
    "github_installation_not_found": 404,
    "github_installation_bound_elsewhere": 409,
    "github_not_configured": 503,
    "github_sync_failed": 503,
    "coupon_not_found": 404,
    "coupon_expired": 422,
    "coupon_exhausted": 422,
    "coupon_already_claimed": 409,
    "sole_owner": 409,
    "organization_limit_reached": 409,
}


@pytest.mark.parametrize("code", STATUSES)
def test_a_code_has_its_status(code: str):
    assert error_catalog()[code].status == STATUSES[code]


@pytest.mark.parametrize("code", error_catalog())
def test_the_type_follows_the_status(code: str):
    assert error_catalog()[code].type == TYPES[error_catalog()[code].status]
