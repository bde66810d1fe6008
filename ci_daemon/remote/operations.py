"""The operations of the API that commands call; a test compares them with the OpenAPI document."""

from __future__ import annotations

from typing import Any

from ci_daemon.remote.operation import Nothing, Operation
from ci_daemon.remote.views import (
    StatusView,
    TokenView,
)

_ORG = "/api/v0/organizations/{org}"
_PIPELINE = _ORG + "/pipelines/{pipeline}"
_BUILD = _PIPELINE + "/builds/{number}"
_JOB = _BUILD + "/jobs/{job_id}"

PING = Operation("ping", "GET", "/api/v0/ping", StatusView)
CLAIM = Operation("cliClaimV2", "POST", "/api/v2/auth/cli/claim", TokenView, frozenset({"nonce"}))
REDEEM = Operation("cliRedeemV2", "POST", "/api/v2/auth/cli/redeem", TokenView, frozenset({"code"}))
LOGOUT = Operation("logout", "POST", "/api/v0/auth/logout", Nothing)

GET_LOG: Operation[Any] = Operation("getJobLog", "GET", _JOB + "/log", Nothing, query=frozenset({"wait"}))
GET_RENDER_LOG: Operation[Any] = Operation(
    "getRenderLog", "GET", _BUILD + "/render-log", Nothing, query=frozenset({"wait"})
)
