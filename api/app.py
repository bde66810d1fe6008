"""The API as one WSGI app: the resource of each path.

The resources that programs use are there at once, all others from the first request for one of them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import falcon

from actors import PREVIEW_HOST
from actors.ir import IrSettings
from api.builds.creation import BuildCreation
from api.builds.render_wait import RenderWait
from api.console.cookies import Cookies
from api.console.errors import ErrorsAsPages
from api.doors.http import HttpDoor
from api.errors.responses import ErrorHandlers
from api.http.slots import StreamSlots
from api.logs.access import LogAccess
from api.logs.events import LogEventsResource
from api.logs.log import JobLogResource, LogRanges, RenderLogResource
from api.middleware.access_log import AccessLog
from api.middleware.audit import AuditTrail
from api.middleware.authentication import Access, BearerTokens, KnownCallers
from api.middleware.client_addresses import ClientAddresses
from api.middleware.headers import Cors, Head, Headers
from api.middleware.idempotency import DurableAnswers
from api.middleware.rate_limits import PublicLimit, RateLimits
from api.openapi.operations import Routes
from api.operations import artifacts, builds, environments, issuer, jobs, meta, pipelines, secrets, user
from api.operations.service import Service, Serving
from api.operations.things import LOG_PATH, RENDER_LOG_PATH, SERVICE_LOG_PATH
from api.paging import Pager
from api.request import ApiRequest
from api.resources.internal_source import InternalSourceResource
from api.resources.meta import HealthResource, MetricsResource
from api.service_metrics import RequestMetrics, metrics_registry
from api.settings import RateLimitSettings
from api.signing import LogTokens, Signer
from storage import Clock, Storage, SystemClock, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from actors.source_hosts import Installations, RepositoryConnector, SourceHost, Workspaces
    from api.engine import EngineInterface
    from api.openapi.router import Router
    from api.operations import Box
    from api.payments.settings import PaymentSettings
    from api.resources.preview_hosts import PreviewDoor
    from api.settings import HttpSettings
    from api.sign_in.settings import IdentitySettings

_V0 = "/api/v0"


@immutable
class Parts:
    """Parts of the app; without them it neither signs in with providers nor takes payments."""

    identity: IdentitySettings | None = None
    """The section ``[identity]``; its passkeys fit the address of ``[http]``."""

    limits: IrSettings | None = None
    """The limits of a pipeline's IR."""

    rate_limits: RateLimitSettings | None = None
    """The section ``[rate_limits]``."""

    slots: StreamSlots | None = None
    """The server's stream slots, which end when the server closes; new ones by default."""

    payments: PaymentSettings | None = None
    """The section ``[payments]``; by default nobody can pay."""

    clock: Clock | None = None
    """The clock of token expiry, rate limits and waits."""

    hosts: Mapping[str, SourceHost] | None = None
    """The source hosts by name; by default plain git servers only."""

    connector: Callable[[], RepositoryConnector] | None = None
    """Returns what connects repositories by token; by default there is no forge."""

    workspaces: Callable[[], Workspaces] | None = None
    """Returns what connects workspaces of Bitbucket; by default nobody can."""

    installations: Callable[[], Installations] | None = None
    """Returns the installations of the GitHub app; None if there is no app."""

    box: Callable[[], Box] | None = None
    """Returns the host, for the pages of its owner; without it there are none."""


@immutable
class Core:
    """The parts that all resources share."""

    service: Service
    settings: HttpSettings
    parts: Parts
    access: Access
    pager: Pager
    rates: RateLimits
    slots: StreamSlots
    addresses: ClientAddresses
    ranges: LogRanges
    cookies: Cookies


def create_app(
    storage: Storage,
    engine: EngineInterface,
    settings: HttpSettings,
    parts: Parts = Parts(),  # noqa: B008 - it is frozen
) -> falcon.App[ApiRequest, falcon.Response]:
    """Return the app.

    Args:
        storage: The open storage.
        engine: The running builds.
        settings: The section ``[http]``; links in responses begin with its ``url``.
        parts: The rest.
    """
    clock = parts.clock or SystemClock()
    slots = parts.slots or StreamSlots(settings.max_streams, settings.max_streams_per_reader)
    rate_limits = parts.rate_limits or RateLimitSettings()
    rates = RateLimits(rate_limits, settings.trusted_proxies, clock)
    signer = Signer(storage.vault.derive(b"api tokens and cursors"))
    log_tokens = LogTokens(signer, clock)
    service = Service(
        storage,
        clock,
        engine,
        limits=rate_limits,
        url=settings.url,
        creation=BuildCreation(
            storage, engine, parts.limits or IrSettings(), RenderWait(storage, engine, slots, clock)
        ),
        serving=Serving(signer, log_tokens),
    )
    core = Core(
        service=service,
        settings=settings,
        parts=parts,
        access=Access(storage, BearerTokens(storage, rates)),
        pager=Pager(signer),
        rates=rates,
        slots=slots,
        addresses=ClientAddresses(settings.trusted_proxies),
        ranges=LogRanges(engine, slots, clock),
        cookies=Cookies(storage, rates),
    )
    registry, routes = metrics_registry(storage, engine), Routes()
    door = HttpDoor(service, core.access, core.pager, rates)
    routes.add("/healthz", HealthResource(engine))
    routes.add("/metrics", MetricsResource(registry, rates, settings.metrics_token))
    door.add(routes, meta, issuer, user, pipelines, builds, secrets, jobs, environments, artifacts)
    log_access, ranges = LogAccess(storage, core.access, log_tokens, rates, core.addresses), core.ranges
    logs = JobLogResource(storage, log_access, ranges)
    routes.add(LOG_PATH, logs)
    routes.add(SERVICE_LOG_PATH, logs, "service")
    routes.add(RENDER_LOG_PATH, RenderLogResource(storage, log_access, ranges))
    events = LogEventsResource(storage, engine, log_access, slots, clock)
    routes.add("/v0/jobs/{job_id}/logs", events)
    routes.add("/v0/jobs/{job_id}/services/{service}/logs", events, "service")
    routes.add(f"{_V0}/internal/builds/{{build_id}}/source.tar.gz", InternalSourceResource(storage, rates))

    app = _App(request_type=ApiRequest, router=routes.router(lambda: _later(routes, core)))
    app.previews = cache(lambda: _preview_door(core))
    app.req_options.strip_url_path_trailing_slash = True
    first = AccessLog(), RequestMetrics(registry), Headers(), Cors(settings.cors_origins), Head(), KnownCallers()
    for middleware in (
        *first,
        DurableAnswers(storage),
        AuditTrail(storage, routes, core.addresses),
        ErrorsAsPages(storage, core.cookies),
        PublicLimit(rates, routes, core.cookies.has_session),
    ):
        app.add_middleware(middleware)
    ErrorHandlers(settings.url).install(app)
    return app


def _preview_door(core: Core) -> PreviewDoor:
    from api.resources.preview_hosts import PreviewDoor  # noqa: PLC0415 - for the first request to a preview

    return PreviewDoor(core.service, core.slots, core.settings.pages_url)


class _App(falcon.App):  # type: ignore[type-arg] # generic only in its stubs
    """The app, and beside it what answers at the hosts of previews, imported at the first request to one."""

    previews: Callable[[], PreviewDoor]

    def __call__(self, env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        if PREVIEW_HOST.fullmatch(str(env.get("HTTP_HOST") or "").lower()):
            return self.previews()(env, start_response)
        return super().__call__(env, start_response)


def _later(routes: Routes, core: Core) -> Router:
    """Return the router of what programs that build do not ask for; it leads to that of pages."""
    from api.later import add_later  # noqa: PLC0415 - a third of the service, which most of its life needs not

    site = add_later(routes, core)

    def pages() -> Router:
        from api.console.routes import add_pages  # noqa: PLC0415 - programs see no page

        add_pages(routes, site)
        return routes.router()

    return routes.router(pages)
