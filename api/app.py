"""The API as one WSGI app: the resource of each path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import falcon

from actors.ir import IrSettings
from actors.mail import Mails
from actors.source_hosts import PlainGit, RepositoryConnector, Workspaces
from api.builds.creation import BuildCreation
from api.builds.render_wait import RenderWait
from api.console.pages import ErrorsAsPages
from api.console.routes import add_build_pages, add_console
from api.doors.http import HttpDoor
from api.errors.pages import ErrorPagesResource
from api.errors.responses import ErrorHandlers
from api.http.client_addresses import ClientAddresses
from api.http.router import Router
from api.http.slots import StreamSlots
from api.logs.access import LogAccess
from api.logs.events import LogEventsResource
from api.logs.log import JobLogResource
from api.logs.ranges import LogRanges
from api.logs.render_log import RenderLogResource
from api.logs.tokens import LogTokenResource, LogTokens
from api.middleware.access_log import AccessLog
from api.middleware.audit import AuditTrail
from api.middleware.authentication import Access, BearerTokens, KnownCallers
from api.middleware.cors import Cors
from api.middleware.durable_answers import DurableAnswers
from api.middleware.head import Head
from api.middleware.headers import Headers
from api.middleware.rate_limits import PublicLimit, RateLimits
from api.middleware.request_metrics import RequestMetrics
from api.openapi.document import OpenApiResource
from api.openapi.operations import Routes
from api.operations.operation import Service
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
    add_sources,
    add_user,
    add_ways_in,
)
from api.payments.provider import PaymentProvider
from api.payments.settings import PaymentSettings
from api.request import ApiRequest
from api.resources.accounts.identities import IdentitiesResource
from api.resources.accounts.passkeys import PasskeysResource
from api.resources.accounts.sessions import LogoutResource, SessionsResource
from api.resources.build_status import BadgeResource, CctrayResource
from api.resources.internal_source import InternalSourceResource
from api.resources.meta import HealthResource
from api.resources.metrics import MetricsResource
from api.resources.push_answers import PushAnswers
from api.resources.sign_in.cli_login import CliLoginResource
from api.resources.sign_in.identity_providers import IdentityProvidersResource
from api.resources.webhooks import WebhookResource
from api.service_metrics import metrics_registry
from api.settings import RateLimitSettings
from api.sign_in.account_passkeys import AccountPasskeys
from api.sign_in.mail import SignInMail
from api.sign_in.providers.configured import IdentityProviders
from api.sign_in.providers.sign_in import ProviderSignIn
from api.sign_in.relying_party import RelyingParty
from api.sign_in.sessions import SessionStart
from api.sign_in.settings import IdentitySettings
from api.signing import Signer
from api.source_host_paths import add_source_hosts
from storage import GIT, Clock, Storage, SystemClock

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


def create_app(
    storage: Storage,
    engine: EngineInterface,
    settings: HttpSettings,
    *,
    identity: IdentitySettings | None = None,
    limits: IrSettings | None = None,
    rate_limits: RateLimitSettings | None = None,
    slots: StreamSlots | None = None,
    payments: PaymentSettings | None = None,
    clock: Clock | None = None,
    hosts: Mapping[str, SourceHost] | None = None,
    connector: RepositoryConnector | None = None,
    workspaces: Workspaces | None = None,
    installations: Installations | None = None,
) -> falcon.App[ApiRequest, falcon.Response]:
    """Return the app.

    Args:
        storage: The open storage.
        engine: The running builds.
        settings: The section ``[http]``; links in responses begin with its ``url``.
        identity: The section ``[identity]``; its passkeys fit the address of ``[http]``.
        limits: The limits of a pipeline's IR.
        rate_limits: The section ``[rate_limits]``.
        slots: The server's stream slots, which end when the server closes; new ones by default.
        payments: The section ``[payments]``; by default nobody can pay.
        clock: The clock of token expiry, rate limits and waits.
        hosts: The source hosts by name; by default plain git servers only.
        connector: Connects repositories by token; by default there is no forge.
        workspaces: Connects workspaces of Bitbucket; by default nobody can.
        installations: The installations of the GitHub app; None if there is no app.
    """
    clock = clock or SystemClock()
    slots = slots or StreamSlots(settings.max_streams, settings.max_streams_per_reader)
    signer, rate_limits = Signer(storage.vault.derive(b"api tokens and cursors")), rate_limits or RateLimitSettings()
    rates = RateLimits(rate_limits, settings.trusted_proxies, clock)
    bearer = BearerTokens(storage, rates)
    access, pager = Access(storage, bearer), Pager(signer)
    mails, identity = (
        Mails(storage, settings.pages_url, settings.front_end(settings.pages_url)),
        identity or IdentitySettings(),
    )
    creation = BuildCreation(storage, engine, limits or IrSettings(), RenderWait(storage, engine, slots, clock))
    service = Service(
        storage,
        clock,
        engine,
        mails,
        rate_limits,
        settings.url,
        creation,
        Connecting(lambda: connector or RepositoryConnector(storage, {}, settings.url)),
    )
    door = HttpDoor(service, access, pager, rates)
    tokens, addresses = LogTokens(signer, clock), ClientAddresses(settings.trusted_proxies)
    log_access = LogAccess(storage, access, tokens, rates, addresses)

    registry = metrics_registry(storage, engine)
    routes = Routes()
    add_meta(routes, HealthResource(engine), MetricsResource(registry, rates, settings.metrics_token))
    add_user(routes, door)
    add_api_tokens(routes, door)
    add_sessions(routes, LogoutResource(bearer, rates), SessionsResource(storage, access, rates))
    sessions = SessionStart(storage, addresses)
    add_cli_login(routes, CliLoginResource(storage, access, rates, sessions))
    sign_in = ProviderSignIn(storage, IdentityProviders(identity, clock), identity.sign_up_policy, sessions, rates)
    add_identity_providers(
        routes,
        IdentityProvidersResource(sign_in, rates),
        IdentitiesResource(storage, engine, sign_in.providers, access, rates),
    )
    party = RelyingParty.of(identity, settings)
    mail, passkeys = SignInMail(storage, mails, identity.sign_up_policy), AccountPasskeys(storage, engine, party)
    add_passkeys(routes, PasskeysResource(storage, passkeys, access, rates))
    add_ways_in(routes, storage, identity.sign_up_policy, party, mail, rates, sessions)
    console = add_console(
        routes,
        service=service,
        access=access,
        rates=rates,
        party=party,
        policy=identity.sign_up_policy,
        mail=mail,
        passkeys=passkeys,
        sign_in=sign_in,
        url=settings.pages_url,
        signer=signer,
    )
    add_organizations(routes, door)

    add_pipelines(routes, door)
    add_builds(
        routes,
        door,
        LogTokenResource(access, tokens),
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
            hosts or {GIT: PlainGit(storage)},
            PushAnswers(storage, engine, slots, clock, settings.front_end(settings.pages_url), settings.pages_url),
        ),
    )
    add_source_hosts(
        routes,
        door,
        access,
        console,
        workspaces=workspaces or Workspaces.unconfigured(storage, clock),
        signer=signer,
        installations=installations,
    )
    add_secrets(routes, door)

    add_jobs(routes, door)
    ranges, provider = (
        LogRanges(engine, slots, clock),
        PaymentProvider.of(payments or PaymentSettings(), settings.front_end(settings.url)),
    )
    add_logs(routes, JobLogResource(storage, log_access, ranges), RenderLogResource(storage, log_access, ranges))
    add_build_pages(
        routes,
        console,
        url=settings.url,
        tokens=tokens,
        ranges=ranges,
        rates=rates,
        slots=slots,
        addresses=addresses,
        pager=pager,
        payments=provider,
    )
    routes.add("/v0/jobs/{job_id}/logs", LogEventsResource(storage, engine, log_access, slots, clock))

    add_artifacts(routes, door)

    add_billing(routes, door)
    add_payments(routes, storage, access, rates, provider)

    add_docs(routes, OpenApiResource(routes, settings.url), ErrorPagesResource(routes))

    app = falcon.App(request_type=ApiRequest, router=Router())
    app.req_options.strip_url_path_trailing_slash = True
    first = AccessLog(), RequestMetrics(registry), Headers(), Cors(settings.cors_origins), Head(), KnownCallers()
    audit = AuditTrail(storage, routes, addresses)
    for middleware in (
        *first,
        DurableAnswers(storage),
        audit,
        ErrorsAsPages(console.pages, console.cookies),
        PublicLimit(rates, routes, console.cookies.has_session),
    ):
        app.add_middleware(middleware)
    ErrorHandlers(settings.url).install(app)
    routes.install(app)
    return app
