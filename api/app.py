"""The API as one WSGI app: the resource of each path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import falcon

from actors.ir import Limits
from api.access import Access
from api.access_log import AccessLog
from api.addresses import Addresses
from api.api_tokens import ApiTokens
from api.artifacts import Artifacts
from api.audit import AuditTrail
from api.billing import Billing
from api.build_intake import BuildIntake
from api.builds import Builds
from api.cors import Cors
from api.coupons import Coupons
from api.docs import Docs, Root, Static
from api.error_pages import ErrorPages
from api.errors import ErrorAnswers
from api.handoffs import Handoffs
from api.head import Head
from api.headers import Headers
from api.internal_source import InternalSource
from api.invites import Invites
from api.jobs import Jobs
from api.log_access import LogAccess
from api.log_events import LogEvents
from api.log_ranges import LogRanges
from api.log_tokens import LogTokenResource, LogTokens
from api.logs import Logs
from api.mailer import Mailer, NoMailer
from api.members import Members
from api.meta import Health, Ping
from api.metrics import Metrics, RequestMetrics, registry_of
from api.openapi import OpenApi
from api.operations import Routes
from api.organizations import Organizations
from api.paging import Pager
from api.pipelines import Pipelines
from api.rate_limits import RateLimits
from api.render_logs import RenderLogs
from api.render_wait import RenderWait
from api.request import ApiRequest
from api.secrets import Secrets
from api.sessions import Logout
from api.settings import RateLimitSettings
from api.signing import Signer
from api.streams import Streams
from api.usage import Usage
from api.user import CurrentUser
from storage import Clock, Storage, SystemClock

if TYPE_CHECKING:
    from api.engine import Engine
    from api.settings import HttpSettings

__all__ = ["create_app"]

_V0 = "/api/v0"
_V2 = "/api/v2"
_PIPELINES = f"{_V0}/organizations/{{org}}/pipelines"
_BUILDS = f"{_PIPELINES}/{{pipeline}}/builds"
_JOBS = f"{_BUILDS}/{{number}}/jobs"


def create_app(
    storage: Storage,
    engine: Engine,
    settings: HttpSettings,
    *,
    limits: Limits | None = None,
    rate_limits: RateLimitSettings | None = None,
    streams: Streams | None = None,
    mailer: Mailer | None = None,
    clock: Clock | None = None,
) -> falcon.App[ApiRequest, falcon.Response]:
    """Return the app.

    Args:
        storage: The open storage.
        engine: The running builds.
        settings: The section ``[http]``; links in responses begin with its ``url``.
        limits: The limits of a pipeline's IR.
        rate_limits: The section ``[rate_limits]``.
        streams: The server's stream slots, which end when the server closes; new ones by default.
        mailer: Sends e-mail; by default none is sent.
        clock: The clock of token expiry, rate limits and waits.
    """
    clock = clock or SystemClock()
    streams = streams or Streams(settings.max_streams, settings.max_streams_per_reader)
    signer = Signer(storage.vault.derive(b"api tokens and cursors"))
    rate_limits = rate_limits or RateLimitSettings()
    rates = RateLimits(rate_limits, settings.trusted_proxies, clock)
    access = Access(storage, rates)
    pager = Pager(signer)
    tokens = LogTokens(signer, clock)
    log_access = LogAccess(storage, access, tokens, Addresses(settings.trusted_proxies))

    registry = registry_of(storage, engine)
    routes = Routes()
    _add_meta(routes, Health(engine), Metrics(registry, rates, settings.metrics_token))
    routes.add(f"{_V0}/user", CurrentUser(storage, engine, access, rates))
    _add_api_tokens(routes, ApiTokens(storage, access, rates, clock))
    routes.add(f"{_V0}/auth/logout", Logout(access, rates))
    _add_handoffs(routes, Handoffs(storage, access, rates))
    invites = Invites(storage, access, rates, mailer or NoMailer(), settings.url, rate_limits.invites_per_day)
    _add_organizations(
        routes,
        Organizations(storage, access, pager, rate_limits.organizations_per_account),
        Members(storage, access),
        invites,
    )

    pipelines = Pipelines(storage, access, pager)
    routes.add(_PIPELINES, pipelines, "list")
    routes.add(f"{_PIPELINES}/{{pipeline}}", pipelines)

    intake = BuildIntake(storage, engine, limits or Limits(), RenderWait(storage, engine, streams, clock))
    builds = Builds(storage, engine, access, pager, intake)
    routes.add(f"{_V0}/organizations/{{org}}/builds", builds, "by_repo")
    routes.add(_BUILDS, builds, "list")
    routes.add(f"{_BUILDS}/{{number}}", builds)
    routes.add(f"{_BUILDS}/{{number}}/cancel", builds, "cancel")
    routes.add(f"{_BUILDS}/{{number}}/log-token", LogTokenResource(access, tokens))

    routes.add(f"{_V0}/internal/builds/{{build_id}}/source.tar.gz", InternalSource(storage))
    _add_secrets(routes, Secrets(storage, access))

    jobs = Jobs(storage, engine, access)
    routes.add(_JOBS, jobs, "list")
    routes.add(f"{_JOBS}/{{job_id}}", jobs)
    ranges = LogRanges(engine, streams, clock)
    _add_logs(routes, Logs(storage, log_access, ranges), RenderLogs(storage, log_access, ranges))
    routes.add("/v0/jobs/{job_id}/logs", LogEvents(storage, engine, log_access, streams, clock))

    _add_artifacts(routes, Artifacts(storage, access, pager, settings.url))

    _add_money(routes, Billing(storage, access, pager), Usage(storage, access), Coupons(storage, access, rates))

    routes.add(f"{_V0}/openapi.json", OpenApi(routes, settings.url))
    _add_docs(routes, ErrorPages(routes))

    app = falcon.App(request_type=ApiRequest)
    app.req_options.strip_url_path_trailing_slash = True
    audit = AuditTrail(storage, routes, Addresses(settings.trusted_proxies))
    for middleware in (AccessLog(), RequestMetrics(registry), Headers(), Cors(settings.cors_origins), Head(), audit):
        app.add_middleware(middleware)
    ErrorAnswers(settings.url).install(app)
    routes.install(app)
    return app


def _add_meta(routes: Routes, health: Health, metrics: Metrics) -> None:
    routes.add("/healthz", health)
    routes.add("/metrics", metrics)
    routes.add(f"{_V0}/ping", Ping())


def _add_api_tokens(routes: Routes, api_tokens: ApiTokens) -> None:
    routes.add(f"{_V0}/user/api-tokens", api_tokens, "list")
    routes.add(f"{_V0}/user/api-tokens/{{id}}", api_tokens)


def _add_handoffs(routes: Routes, handoffs: Handoffs) -> None:
    for step in ("transfer", "claim", "code", "redeem"):
        routes.add(f"{_V0}/auth/cli/{step}", handoffs, step)
        routes.add(f"{_V2}/auth/cli/{step}", handoffs, f"{step}_v2")


def _add_organizations(routes: Routes, organizations: Organizations, members: Members, invites: Invites) -> None:
    organization = f"{_V0}/organizations/{{org}}"
    routes.add(f"{_V0}/organizations", organizations, "list")
    routes.add(organization, organizations)
    routes.add(f"{organization}/members", members, "list")
    routes.add(f"{organization}/members/{{user_id}}", members)
    routes.add(f"{organization}/invites", invites, "list")
    routes.add(f"{organization}/invites/{{id}}", invites)
    routes.add(f"{_V0}/invites/accept", invites, "accept")


def _add_logs(routes: Routes, logs: Logs, render_logs: RenderLogs) -> None:
    routes.add(f"{_JOBS}/{{job_id}}/log", logs)
    routes.add(f"{_BUILDS}/{{number}}/render-log", render_logs)


def _add_artifacts(routes: Routes, artifacts: Artifacts) -> None:
    routes.add(f"{_BUILDS}/{{number}}/artifacts", artifacts, "of_build")
    routes.add(f"{_BUILDS}/{{number}}/artifacts/{{id}}/download", artifacts, "download")
    routes.add(f"{_JOBS}/{{job_id}}/artifacts", artifacts, "of_job")


def _add_secrets(routes: Routes, secrets: Secrets) -> None:
    for scope, path in (("organization", f"{_V0}/organizations/{{org}}"), ("pipeline", f"{_PIPELINES}/{{pipeline}}")):
        routes.add(f"{path}/secrets", secrets, f"{scope}_list")
        routes.add(f"{path}/secrets/{{name}}", secrets, scope)


def _add_money(routes: Routes, billing: Billing, usage: Usage, coupons: Coupons) -> None:
    for part in ("balance", "transactions"):
        routes.add(f"{_V0}/billing/{part}/{{org}}", billing, part)
    routes.add(f"{_V0}/billing/usage/{{org}}", usage)
    for part in ("series", "breakdown"):
        routes.add(f"{_V0}/billing/usage/{{org}}/{part}", usage, part)
    routes.add(f"{_V0}/billing/coupon/redeem/{{org}}", coupons, "redeem")


def _add_docs(routes: Routes, error_pages: ErrorPages) -> None:
    routes.add("/", Root())
    routes.add("/docs", Docs())
    routes.add("/docs/static/{file}", Static())
    routes.add("/docs/errors", error_pages, "list")
    routes.add("/docs/errors/{code}", error_pages)
