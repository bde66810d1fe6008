"""The resources of people and of other services, imported at the first request for one.

Programs that build ask for none of them: ways in, organizations, source hosts, payments, documents.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors import source_hosts
from actors.mail import Mails
from api.builds.coverage import KeptCoverage
from api.builds.test_reports import KeptReports
from api.console.pages import Pages
from api.console.site import Site
from api.doors.http import HttpDoor
from api.operations import (
    api_tokens,
    audit,
    billing,
    bitbucket,
    caches,
    cli_login,
    coverage,
    culprits,
    deploy_keys,
    disk_files,
    favourites,
    github_installations,
    identities,
    identity_providers,
    invites,
    latest_artifacts,
    machine_accounts,
    mail_settings,
    members,
    merge_queue,
    notifications,
    organizations,
    passkeys,
    payments,
    previews,
    proofs,
    quarantine,
    registry_logins,
    repo_deliveries,
    repositories,
    runs,
    schedules,
    search,
    sessions,
    sign_up,
    terminals,
    tests,
    usage,
)
from api.operations.github_installations import GithubApp
from api.operations.repositories import Connecting
from api.operations.service import LaterParts
from api.payments.provider import PaymentProvider
from api.payments.settings import PaymentSettings
from api.resources.build_status import BadgeResource, CctrayResource, CoverageBadgeResource
from api.resources.documents import (
    ErrorPagesResource,
    OpenApiResource,
    PipelineSchemaResource,
    ReferenceResource,
    reference_files,
)
from api.resources.payment_events import PaymentEventsResource
from api.resources.push_answers import PushAnswers
from api.resources.sites import SiteResource
from api.resources.terminal_output import TerminalOutputResource
from api.resources.webhooks import WebhookResource
from api.sign_in.mail import SignInMail
from api.sign_in.passkeys import PasskeyRegistration, PasskeySignIn
from api.sign_in.providers.sign_in import IdentityProviders, ProviderSignIn
from api.sign_in.relying_party import RelyingParty
from api.sign_in.settings import IdentitySettings
from storage import GIT

if TYPE_CHECKING:
    from api.app import Core
    from api.openapi.operations import Routes

_V0 = "/api/v0"


def add_later(routes: Routes, core: Core) -> Site:
    """Route them; return what pages build on."""
    site = _site(core)
    door = HttpDoor(site.service, core.access, core.pager, core.rates)
    door.add(routes, cli_login, identity_providers, passkeys, sign_up)
    door.add(routes, mail_settings, api_tokens, sessions, identities, organizations, members, invites, audit)
    door.add(routes, machine_accounts, registry_logins, deploy_keys, culprits)
    door.add(routes, favourites, search, schedules, caches, notifications, tests, coverage, latest_artifacts)
    door.add(routes, runs, disk_files, terminals, previews, proofs, quarantine)
    routes.add(terminals.OUTPUT, TerminalOutputResource(site.service, door, core.slots))
    _add_deliveries(routes, site, core)
    door.add(routes, repositories, repo_deliveries, merge_queue, github_installations, bitbucket)
    door.add(routes, billing, usage, payments)
    routes.add(f"{_V0}/billing/webhook", PaymentEventsResource(site.storage, site.rates, site.later.payments))
    routes.add("/badges/{org}/{pipeline}.svg", BadgeResource(site.storage, core.access))
    routes.add("/badges/{org}/{pipeline}/coverage.svg", CoverageBadgeResource(core.access, site.service))
    routes.add_page("/sites/of/{token}/{path:path}", SiteResource(site.service), "of")
    routes.add("/cc.xml", CctrayResource(site.storage, core.access, core.settings.url))
    _add_documents(routes, core)
    return site


def _site(core: Core) -> Site:
    """Return the parts of these resources and of pages, of which the others need few."""
    parts, settings = core.parts, core.settings
    storage, clock = core.service.storage, core.service.clock
    identity = parts.identity or IdentitySettings()
    party, policy = RelyingParty.of(identity, settings), identity.sign_up_policy
    mails = Mails(storage, settings.pages_url, settings.front_end(settings.pages_url))
    identities = IdentityProviders(identity, clock)
    later = LaterParts(
        passkeys=PasskeyRegistration(storage, party),
        passkey_sign_in=PasskeySignIn(storage, party),
        provider_sign_in=ProviderSignIn(storage, identities, policy),
        sign_up_policy=policy,
        sign_in_mail=SignInMail(storage, mails, policy),
        identities=identities,
        open_workspaces=parts.workspaces or (lambda: source_hosts.Workspaces.unconfigured(storage, clock)),
        github=GithubApp(parts.installations),
        payments=PaymentProvider.of(parts.payments or PaymentSettings(), settings.front_end(settings.url)),
    )
    connecting = Connecting(parts.connector or (lambda: source_hosts.RepositoryConnector(storage, {}, settings.url)))
    return Site(
        service=replace(
            core.service,
            mails=mails,
            connecting=connecting,
            later=later,
            reports=KeptReports(storage),
            coverage=KeptCoverage(storage),
        ),
        pages=Pages(storage, core.cookies),
        cookies=core.cookies,
        url=settings.pages_url,
        api_url=settings.url,
        by_token=core.access,
        rates=core.rates,
        party=party,
        ranges=core.ranges,
        slots=core.slots,
        addresses=core.addresses,
        pager=core.pager,
        currency=(parts.payments or PaymentSettings()).currency.upper(),
        owners_box=parts.box,
    )


def _add_deliveries(routes: Routes, site: Site, core: Core) -> None:
    """Route the deliveries of source hosts."""
    storage, engine, settings = site.storage, site.engine, core.settings
    pages = settings.front_end(settings.pages_url)
    answers = PushAnswers(storage, engine, site.slots, site.clock, pages, settings.pages_url)
    hosts = core.parts.hosts or {GIT: source_hosts.PlainGit(storage)}
    routes.add("/webhooks/{provider}", WebhookResource(storage, engine, site.rates, hosts, answers))


def _add_documents(routes: Routes, core: Core) -> None:
    """Route the OpenAPI document, the reference and the pages of errors."""
    errors = ErrorPagesResource(routes)
    routes.add(f"{_V0}/openapi.json", OpenApiResource(routes, core.settings.url))
    routes.add(f"{_V0}/pipeline.schema.json", PipelineSchemaResource())
    routes.add("/docs/api", ReferenceResource())
    routes.add_page("/docs/static/{file}", reference_files())
    routes.add("/docs/errors", errors, "list")
    routes.add("/docs/errors/{code}", errors)
