"""The API as one WSGI app: the resource of each path."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import falcon

from actors.ir import IrSettings
from actors.mail import Mails
from actors.source_hosts import PlainGit, RepositoryConnector, Workspaces
from api.builds.creation import BuildCreation
from api.builds.render_wait import RenderWait
from api.console.pages import ErrorsAsPages
from api.console.routes import add_build_pages, add_console
from api.console.source_hosts import add_source_host_pages
from api.doors.http import HttpDoor
from api.errors.pages import ErrorPagesResource
from api.errors.responses import ErrorHandlers
from api.http.client_addresses import ClientAddresses
from api.http.router import Router
from api.http.slots import StreamSlots
from api.logs.access import LogAccess
from api.logs.events import LogEventsResource
from api.logs.log import JobLogResource, LogRanges, RenderLogResource
from api.logs.tokens import LogTokens
from api.middleware.access_log import AccessLog
from api.middleware.audit import AuditTrail
from api.middleware.authentication import Access, BearerTokens, KnownCallers
from api.middleware.durable_answers import DurableAnswers
from api.middleware.headers import Cors, Head, Headers
from api.middleware.rate_limits import PublicLimit, RateLimits
from api.middleware.request_metrics import RequestMetrics
from api.openapi.document import OpenApiResource
from api.openapi.operations import Routes
from api.operations.github_installations import GithubApp
from api.operations.operation import Service, Serving
from api.operations.repositories import Connecting
from api.paging import Pager
from api.paths import (
    add_api_tokens,
    add_artifacts,
    add_billing,
    add_builds,
    add_cli_login,
    add_docs,
    add_identity_providers,
    add_jobs,
    add_logs,
    add_meta,
    add_organizations,
    add_passkeys,
    add_payments,
    add_pipelines,
    add_secrets,
    add_sessions,
    add_source_hosts,
    add_sources,
    add_user,
    add_ways_in,
)
from api.payments.provider import PaymentProvider
from api.payments.settings import PaymentSettings
from api.request import ApiRequest
from api.resources.build_status import BadgeResource, CctrayResource
from api.resources.internal_source import InternalSourceResource
from api.resources.logout import LogoutResource
from api.resources.meta import HealthResource
from api.resources.metrics import MetricsResource
from api.resources.payment_events import PaymentEventsResource
from api.resources.push_answers import PushAnswers
from api.resources.sign_in.cli_login import CliLoginResource
from api.resources.sign_in.identity_providers import IdentityProvidersResource
from api.resources.webhooks import WebhookResource
from api.service_metrics import metrics_registry
from api.settings import RateLimitSettings
from api.sign_in.mail import SignInMail
from api.sign_in.passkeys import PasskeyRegistration
from api.sign_in.providers.sign_in import IdentityProviders, ProviderSignIn
from api.sign_in.relying_party import RelyingParty
from api.sign_in.sessions import SessionStart
from api.sign_in.settings import IdentitySettings
from api.signing import Signer
from storage import GIT, Clock, Storage, SystemClock, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.source_hosts import SourceHost
    from actors.source_hosts.github import Installations
    from api.engine import EngineInterface
    from api.settings import HttpSettings

_V0 = "/api/v0"
_V2 = "/api/v2"
_PIPELINES = f"{_V0}/organizations/{{org}}/pipelines"
_BUILDS = f"{_PIPELINES}/{{pipeline}}/builds"
_JOBS = f"{_BUILDS}/{{number}}/jobs"


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

    connector: RepositoryConnector | None = None
    """Connects repositories by token; by default there is no forge."""

    workspaces: Workspaces | None = None
    """Connects workspaces of Bitbucket; by default nobody can."""

    installations: Installations | None = None
    """The installations of the GitHub app; None if there is no app."""


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
    rate_limits, identity = parts.rate_limits or RateLimitSettings(), parts.identity or IdentitySettings()
    rates = RateLimits(rate_limits, settings.trusted_proxies, clock)
    given = replace(parts, clock=clock, slots=slots, rate_limits=rate_limits, identity=identity)
    mails = Mails(storage, settings.pages_url, settings.front_end(settings.pages_url))
    service = _service(storage, engine, settings, given, mails)
    serving = service.own
    bearer = BearerTokens(storage, rates)
    access, pager = Access(storage, bearer), Pager(serving.signer)
    policy, party = identity.sign_up_policy, RelyingParty.of(identity, settings)
    addresses = ClientAddresses(settings.trusted_proxies)
    door = HttpDoor(service, access, pager, rates)
    log_access = LogAccess(storage, access, serving.log_tokens, rates, addresses)

    registry, routes = metrics_registry(storage, engine), Routes()
    add_meta(routes, HealthResource(engine), MetricsResource(registry, rates, settings.metrics_token))
    add_user(routes, door)
    add_api_tokens(routes, door)
    add_sessions(routes, door, LogoutResource(bearer, rates))
    sessions = SessionStart(storage, addresses)
    add_cli_login(routes, CliLoginResource(storage, access, rates, sessions))
    sign_in = ProviderSignIn(storage, serving.identities, policy, sessions, rates)
    add_identity_providers(routes, door, IdentityProvidersResource(sign_in, rates))
    mail = SignInMail(storage, mails, policy)
    add_passkeys(routes, door)
    add_ways_in(routes, storage, policy, party, mail, rates, sessions)
    console = add_console(
        routes,
        service=service,
        access=access,
        rates=rates,
        party=party,
        policy=policy,
        mail=mail,
        sign_in=sign_in,
        url=settings.pages_url,
    )
    add_organizations(routes, door)

    add_pipelines(routes, door)
    add_builds(
        routes,
        door,
        BadgeResource(storage, access),
        CctrayResource(storage, access, settings.url),
    )

    add_sources(
        routes,
        InternalSourceResource(storage, rates),
        WebhookResource(
            storage,
            engine,
            rates,
            parts.hosts or {GIT: PlainGit(storage)},
            PushAnswers(storage, engine, slots, clock, settings.front_end(settings.pages_url), settings.pages_url),
        ),
    )
    add_source_hosts(routes, door)
    add_source_host_pages(routes, console)
    add_secrets(routes, door)

    add_jobs(routes, door)
    ranges = LogRanges(engine, slots, clock)
    add_logs(routes, JobLogResource(storage, log_access, ranges), RenderLogResource(storage, log_access, ranges))
    add_build_pages(
        routes,
        console,
        url=settings.url,
        tokens=serving.log_tokens,
        ranges=ranges,
        rates=rates,
        slots=slots,
        addresses=addresses,
        pager=pager,
    )
    routes.add("/v0/jobs/{job_id}/logs", LogEventsResource(storage, engine, log_access, slots, clock))

    add_artifacts(routes, door)

    add_billing(routes, door)
    add_payments(routes, door, PaymentEventsResource(storage, rates, serving.payments))

    add_docs(routes, OpenApiResource(routes, settings.url), ErrorPagesResource(routes))

    app = falcon.App(request_type=ApiRequest, router=Router())
    app.req_options.strip_url_path_trailing_slash = True
    first = AccessLog(), RequestMetrics(registry), Headers(), Cors(settings.cors_origins), Head(), KnownCallers()
    for middleware in (
        *first,
        DurableAnswers(storage),
        AuditTrail(storage, routes, addresses),
        ErrorsAsPages(console.pages, console.cookies),
        PublicLimit(rates, routes, console.cookies.has_session),
    ):
        app.add_middleware(middleware)
    ErrorHandlers(settings.url).install(app)
    routes.install(app)
    return app


def _service(storage: Storage, engine: EngineInterface, settings: HttpSettings, parts: Parts, mails: Mails) -> Service:
    """Return the parts that operations use."""
    clock = parts.clock or SystemClock()
    slots = parts.slots or StreamSlots(settings.max_streams, settings.max_streams_per_reader)
    identity = parts.identity or IdentitySettings()
    signer = Signer(storage.vault.derive(b"api tokens and cursors"))
    connector = parts.connector or RepositoryConnector(storage, {}, settings.url)
    return Service(
        storage,
        clock,
        engine,
        mails,
        limits=parts.rate_limits,
        url=settings.url,
        creation=BuildCreation(
            storage, engine, parts.limits or IrSettings(), RenderWait(storage, engine, slots, clock)
        ),
        connecting=Connecting(lambda: connector),
        serving=Serving(
            signer=signer,
            log_tokens=LogTokens(signer, clock),
            passkeys=PasskeyRegistration(storage, RelyingParty.of(identity, settings)),
            identities=IdentityProviders(identity, clock),
            workspaces=parts.workspaces or Workspaces.unconfigured(storage, clock),
            github=GithubApp(parts.installations),
            payments=PaymentProvider.of(parts.payments or PaymentSettings(), settings.front_end(settings.url)),
        ),
    )
