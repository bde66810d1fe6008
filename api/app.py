"""The API as one WSGI app: the resource of each path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import falcon

from actors.ir import IrSettings
from actors.mail import Mails
from api.builds.creation import BuildCreation
from api.builds.render_wait import RenderWait
from api.console.pages import ErrorsAsPages
from api.console.routes import add_console
from api.errors.pages import ErrorPagesResource
from api.errors.responses import ErrorHandlers
from api.http.client_addresses import ClientAddresses
from api.http.slots import StreamSlots
from api.logs.access import LogAccess
from api.logs.events import LogEventsResource
from api.logs.log import JobLogResource
from api.logs.ranges import LogRanges
from api.logs.render_log import RenderLogResource
from api.logs.tokens import LogTokenResource, LogTokens
from api.middleware.access_log import AccessLog
from api.middleware.audit import AuditTrail
from api.middleware.authentication import Access
from api.middleware.cors import Cors
from api.middleware.head import Head
from api.middleware.headers import Headers
from api.middleware.rate_limits import PublicLimit, RateLimits
from api.middleware.request_metrics import RequestMetrics
from api.openapi.docs import ReferenceResource, reference_files
from api.openapi.document import OpenApiResource
from api.openapi.operations import Routes
from api.paging import Pager
from api.payments.provider import PaymentProvider
from api.payments.settings import PaymentSettings
from api.request import ApiRequest
from api.resources.api_tokens import ApiTokensResource
from api.resources.artifacts import ArtifactsResource
from api.resources.billing import BillingResource
from api.resources.build_status import BadgeResource, CctrayResource
from api.resources.builds import BuildsResource
from api.resources.checkout_pages import CheckoutPageResource
from api.resources.cli_login import CliLoginResource
from api.resources.coupons import CouponsResource
from api.resources.identities import IdentitiesResource
from api.resources.identity_providers import IdentityProvidersResource
from api.resources.internal_source import InternalSourceResource
from api.resources.invites import InvitesResource
from api.resources.jobs import JobsResource
from api.resources.members import MembersResource
from api.resources.meta import HealthResource, PingResource
from api.resources.metrics import MetricsResource
from api.resources.organizations import OrganizationsResource
from api.resources.passkey_login import PasskeyLoginResource
from api.resources.passkey_sign_up import PasskeySignUpResource
from api.resources.passkeys import PasskeysResource
from api.resources.payments import CheckoutResource, PaymentEventsResource
from api.resources.pipelines import PipelinesResource
from api.resources.recovery import RecoveryResource
from api.resources.schedules import SchedulesResource
from api.resources.secrets import SecretsResource
from api.resources.sessions import LogoutResource, SessionsResource
from api.resources.usage import UsageResource
from api.resources.user import CurrentUserResource
from api.resources.webhooks import GitWebhookResource
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
from storage import Clock, Storage, SystemClock

if TYPE_CHECKING:
    from api.engine import EngineInterface
    from api.settings import HttpSettings
    from storage import SignUpPolicy

__all__ = ["create_app"]

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
    """
    clock = clock or SystemClock()
    slots = slots or StreamSlots(settings.max_streams, settings.max_streams_per_reader)
    signer = Signer(storage.vault.derive(b"api tokens and cursors"))
    rate_limits = rate_limits or RateLimitSettings()
    rates = RateLimits(rate_limits, settings.trusted_proxies, clock)
    access = Access(storage, rates)
    pager = Pager(signer)
    tokens = LogTokens(signer, clock)
    log_access = LogAccess(storage, access, tokens, rates, ClientAddresses(settings.trusted_proxies))

    registry = metrics_registry(storage, engine)
    routes = Routes()
    _add_meta(routes, HealthResource(engine), MetricsResource(registry, rates, settings.metrics_token))
    routes.add(f"{_V0}/user", CurrentUserResource(storage, engine, access, rates))
    _add_api_tokens(routes, ApiTokensResource(storage, access, rates, clock))
    _add_sessions(routes, LogoutResource(access, rates), SessionsResource(storage, access, rates))
    sessions = SessionStart(storage, ClientAddresses(settings.trusted_proxies))
    _add_cli_login(routes, CliLoginResource(storage, access, rates, sessions))
    mails = Mails(storage, settings.url)
    identity = identity or IdentitySettings()
    sign_in = ProviderSignIn(storage, IdentityProviders(identity, clock), identity.sign_up_policy, sessions, rates)
    _add_identity_providers(
        routes,
        IdentityProvidersResource(sign_in, rates),
        IdentitiesResource(storage, engine, sign_in.providers, access, rates),
    )
    party = RelyingParty.of(identity, settings)
    mail, passkeys = SignInMail(storage, mails, identity.sign_up_policy), AccountPasskeys(storage, engine, party)
    _add_passkeys(routes, PasskeysResource(storage, passkeys, access, rates))
    _add_ways_in(routes, storage, identity.sign_up_policy, party, mail, rates, sessions)
    console = add_console(
        routes,
        storage=storage,
        engine=engine,
        access=access,
        rates=rates,
        party=party,
        policy=identity.sign_up_policy,
        mail=mail,
        passkeys=passkeys,
        sign_in=sign_in,
        url=settings.url,
        signer=signer,
        clock=clock,
    )
    _add_organizations(
        routes,
        OrganizationsResource(storage, access, pager, rate_limits.organizations_per_account),
        MembersResource(storage, access),
        InvitesResource(storage, access, rates, mails, rate_limits.invites_per_day),
    )

    _add_pipelines(routes, PipelinesResource(storage, access, pager), SchedulesResource(storage, access, pager, clock))
    creation = BuildCreation(storage, engine, limits or IrSettings(), RenderWait(storage, engine, slots, clock))
    builds = BuildsResource(storage, engine, access, pager, creation)
    _add_builds(
        routes,
        builds,
        LogTokenResource(access, tokens),
        BadgeResource(storage, access),
        CctrayResource(storage, access, settings.url),
    )

    _add_sources(routes, InternalSourceResource(storage, rates), GitWebhookResource(storage, engine, rates))
    _add_secrets(routes, SecretsResource(storage, access))

    _add_jobs(routes, JobsResource(storage, engine, access))
    ranges = LogRanges(engine, slots, clock)
    _add_logs(routes, JobLogResource(storage, log_access, ranges), RenderLogResource(storage, log_access, ranges))
    routes.add("/v0/jobs/{job_id}/logs", LogEventsResource(storage, engine, log_access, slots, clock))

    _add_artifacts(routes, ArtifactsResource(storage, access, pager, settings.url))

    _add_billing(
        routes,
        BillingResource(storage, access, pager),
        UsageResource(storage, access),
        CouponsResource(storage, access, rates),
    )
    _add_payments(routes, storage, access, rates, PaymentProvider.of(payments or PaymentSettings(), settings.url))

    routes.add(f"{_V0}/openapi.json", OpenApiResource(routes, settings.url))
    _add_docs(routes, ErrorPagesResource(routes))

    app = falcon.App(request_type=ApiRequest)
    app.req_options.strip_url_path_trailing_slash = True
    audit = AuditTrail(storage, routes, ClientAddresses(settings.trusted_proxies))
    first = AccessLog(), RequestMetrics(registry), Headers(), Cors(settings.cors_origins), Head(), audit
    for middleware in (*first, ErrorsAsPages(console), PublicLimit(rates, routes)):
        app.add_middleware(middleware)
    ErrorHandlers(settings.url).install(app)
    routes.install(app)
    return app


def _add_meta(routes: Routes, health: HealthResource, metrics: MetricsResource) -> None:
    routes.add("/healthz", health)
    routes.add("/metrics", metrics)
    routes.add(f"{_V0}/ping", PingResource())


def _add_api_tokens(routes: Routes, api_tokens: ApiTokensResource) -> None:
    routes.add(f"{_V0}/user/api-tokens", api_tokens, "list")
    routes.add(f"{_V0}/user/api-tokens/{{id}}", api_tokens)


def _add_sessions(routes: Routes, logout: LogoutResource, sessions: SessionsResource) -> None:
    routes.add(f"{_V0}/auth/logout", logout)
    routes.add(f"{_V0}/user/sessions", sessions, "list")
    routes.add(f"{_V0}/user/sessions/{{id}}", sessions)


def _add_cli_login(routes: Routes, cli_login: CliLoginResource) -> None:
    for action in ("transfer", "claim", "code", "redeem"):
        routes.add(f"{_V0}/auth/cli/{action}", cli_login, action)
        routes.add(f"{_V2}/auth/cli/{action}", cli_login, f"{action}_v2")


def _add_passkeys(routes: Routes, passkeys: PasskeysResource) -> None:
    for action in ("options", "finalize"):
        routes.add(f"{_V0}/auth/passkey/register/{action}", passkeys, action)
    routes.add(f"{_V0}/user/passkeys", passkeys, "list")
    routes.add(f"{_V0}/user/passkeys/{{uuid}}", passkeys)


def _add_ways_in(
    routes: Routes,
    storage: Storage,
    policy: SignUpPolicy,
    party: RelyingParty,
    mail: SignInMail,
    rates: RateLimits,
    sessions: SessionStart,
) -> None:
    login = PasskeyLoginResource(storage, party, sessions, rates)
    sign_up = PasskeySignUpResource(storage, party, policy, mail, sessions, rates)
    recovery = RecoveryResource(storage, party, mail, sessions, rates)
    for action in ("options", "finalize"):
        routes.add(f"{_V0}/auth/passkey/login/{action}", login, action)
    for action in ("begin", "options", "finalize"):
        routes.add(f"{_V0}/auth/passkey/signup/{action}", sign_up, action)
        routes.add(f"{_V0}/auth/recover/{action}", recovery, action)


def _add_identity_providers(
    routes: Routes, providers: IdentityProvidersResource, identities: IdentitiesResource
) -> None:
    routes.add(f"{_V0}/auth/providers", providers, "list")
    routes.add(f"{_V0}/auth/google", providers, "google")
    routes.add(f"{_V2}/auth/google", providers, "google_v2")
    routes.add(f"{_V0}/auth/github", providers, "github")
    routes.add(f"{_V0}/auth/oidc/{{provider}}", providers, "oidc")
    routes.add(f"{_V0}/user/identities", identities, "list")
    routes.add(f"{_V0}/user/identities/{{id}}", identities)


def _add_organizations(
    routes: Routes, organizations: OrganizationsResource, members: MembersResource, invites: InvitesResource
) -> None:
    organization = f"{_V0}/organizations/{{org}}"
    routes.add(f"{_V0}/organizations", organizations, "list")
    routes.add(organization, organizations)
    routes.add(f"{organization}/members", members, "list")
    routes.add(f"{organization}/members/{{user_id}}", members)
    routes.add(f"{organization}/invites", invites, "list")
    routes.add(f"{organization}/invites/{{id}}", invites)
    routes.add(f"{_V0}/invites/accept", invites, "accept")


def _add_builds(
    routes: Routes, builds: BuildsResource, log_tokens: LogTokenResource, badge: BadgeResource, cctray: CctrayResource
) -> None:
    routes.add(f"{_V0}/organizations/{{org}}/builds", builds, "by_repo")
    routes.add(_BUILDS, builds, "list")
    routes.add(f"{_BUILDS}/{{number}}", builds)
    routes.add(f"{_BUILDS}/{{number}}/cancel", builds, "cancel")
    routes.add(f"{_BUILDS}/{{number}}/rebuild", builds, "rebuild")
    routes.add(f"{_BUILDS}/{{number}}/retry", builds, "retry")
    routes.add(f"{_BUILDS}/{{number}}/log-token", log_tokens)
    routes.add("/badges/{org}/{pipeline}.svg", badge)
    routes.add("/cc.xml", cctray)


def _add_sources(routes: Routes, internal: InternalSourceResource, git: GitWebhookResource) -> None:
    routes.add(f"{_V0}/internal/builds/{{build_id}}/source.tar.gz", internal)
    routes.add("/webhooks/git", git)


def _add_pipelines(routes: Routes, pipelines: PipelinesResource, schedules: SchedulesResource) -> None:
    routes.add(_PIPELINES, pipelines, "list")
    routes.add(f"{_PIPELINES}/{{pipeline}}", pipelines)
    routes.add(f"{_PIPELINES}/{{pipeline}}/schedules", schedules, "list")
    routes.add(f"{_PIPELINES}/{{pipeline}}/schedules/{{id}}", schedules)


def _add_jobs(routes: Routes, jobs: JobsResource) -> None:
    routes.add(_JOBS, jobs, "list")
    routes.add(f"{_JOBS}/{{job_id}}", jobs)


def _add_logs(routes: Routes, logs: JobLogResource, render_logs: RenderLogResource) -> None:
    routes.add(f"{_JOBS}/{{job_id}}/log", logs)
    routes.add(f"{_BUILDS}/{{number}}/render-log", render_logs)


def _add_artifacts(routes: Routes, artifacts: ArtifactsResource) -> None:
    routes.add(f"{_BUILDS}/{{number}}/artifacts", artifacts, "of_build")
    routes.add(f"{_BUILDS}/{{number}}/artifacts/{{id}}/download", artifacts, "download")
    routes.add(f"{_JOBS}/{{job_id}}/artifacts", artifacts, "of_job")


def _add_secrets(routes: Routes, secrets: SecretsResource) -> None:
    for scope, path in (("organization", f"{_V0}/organizations/{{org}}"), ("pipeline", f"{_PIPELINES}/{{pipeline}}")):
        routes.add(f"{path}/secrets", secrets, f"{scope}_list")
        routes.add(f"{path}/secrets/{{name}}", secrets, scope)


def _add_billing(routes: Routes, billing: BillingResource, usage: UsageResource, coupons: CouponsResource) -> None:
    for part in ("balance", "transactions"):
        routes.add(f"{_V0}/billing/{part}/{{org}}", billing, part)
    routes.add(f"{_V0}/billing/usage/{{org}}", usage)
    for part in ("series", "breakdown"):
        routes.add(f"{_V0}/billing/usage/{{org}}/{part}", usage, part)
    routes.add(f"{_V0}/billing/coupon/redeem/{{org}}", coupons, "redeem")


def _add_payments(
    routes: Routes, storage: Storage, access: Access, rates: RateLimits, provider: PaymentProvider | None
) -> None:
    routes.add(f"{_V0}/billing/checkout/{{org}}", CheckoutResource(storage, access, rates, provider))
    routes.add(f"{_V0}/billing/webhook", PaymentEventsResource(storage, rates, provider))
    routes.add_page("/billing/paid", CheckoutPageResource.paid())
    routes.add_page("/billing/canceled", CheckoutPageResource.canceled())


def _add_docs(routes: Routes, error_pages: ErrorPagesResource) -> None:
    routes.add("/docs", ReferenceResource())
    routes.add_page("/docs/static/{file}", reference_files())
    routes.add("/docs/errors", error_pages, "list")
    routes.add("/docs/errors/{code}", error_pages)
