"""The operations of the API that commands call; a test compares them with the OpenAPI document."""

from __future__ import annotations

from typing import Any

from ci_daemon.remote.operation import Nothing, Operation, Page
from ci_daemon.remote.repository_views import ConnectedRepoView, RepoHookView, RepoSummaryView, RepoView, ShownRepoView
from ci_daemon.remote.views import (
    StatusView,
    TokenView,
)

_PAGED = frozenset({"limit", "cursor"})
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


_REPO = _ORG + "/repos/{id}"
_PACKED_PARTS = frozenset({"submodules", "lfs"})
LIST_REPOS = Operation("listOrgRepos", "GET", _ORG + "/repos", Page[RepoSummaryView])
CONNECT_REPO = Operation(
    "connectRepo", "POST", _ORG + "/repos/connect", ConnectedRepoView, _PACKED_PARTS | {"url", "token", "provider"}
)
GET_REPO = Operation("getRepo", "GET", _REPO, ShownRepoView)
UPDATE_REPO = Operation("updateRepo", "PATCH", _REPO, RepoView, _PACKED_PARTS)
DISCONNECT_REPO = Operation("disconnectRepo", "DELETE", _REPO, Nothing)
MAKE_REPO_HOOK = Operation("makeRepoHook", "POST", _REPO + "/hook", RepoHookView)
