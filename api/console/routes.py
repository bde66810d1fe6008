"""The paths of the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.account import AccountPage, ClosingForm, SignOutForm, passkey_of
from api.console.artifacts import ArtifactPage
from api.console.builds.events import BuildEvents
from api.console.builds.page import BuildPage
from api.console.cli_login import CliLoginPage
from api.console.cookies import Cookies
from api.console.invites import InvitesPage
from api.console.login import LinkPage, LoginPage, MailForms, SessionCookieResource
from api.console.logs import JobPage, LogParts
from api.console.mail_stop import MailStopPage
from api.console.notifications import add_notification_pages
from api.console.operation_form import OperationForm, leads_to, shows, shows_json
from api.console.operation_routes import add_operation_pages
from api.console.organization import add_organization_pages
from api.console.pages import Pages
from api.console.pipelines import HomePage, OrganizationPage, PipelinePage
from api.console.provider_login import ProviderLoginPage
from api.console.site import Site
from api.doors.http import HttpDoor
from api.http.files import CSS, JAVASCRIPT, SVG, StaticFile, StaticFilesResource
from api.logs.access import LogAccess
from api.logs.log import JobLogResource
from api.operations import api_tokens, identities, invites, mail_settings, passkeys, sessions, user
from api.operations.artifacts import download_artifact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.http.client_addresses import ClientAddresses
    from api.http.slots import StreamSlots
    from api.logs.log import LogRanges
    from api.logs.tokens import LogTokens
    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits
    from api.openapi.operations import Routes
    from api.operations.operation import Service
    from api.paging import Pager
    from api.sign_in.mail import SignInMail
    from api.sign_in.providers.sign_in import ProviderSignIn
    from api.sign_in.relying_party import RelyingParty
    from storage import SignUpPolicy

_FILES = (
    *(StaticFile(f"{name}.css", CSS) for name in ("console", "builds", "log")),
    *(
        StaticFile(f"{name}.js", JAVASCRIPT)
        for name in ("passkeys", "live", "events", "forms", "copy", "graph", "plot")
    ),
    *(
        StaticFile(f"{name}.js", JAVASCRIPT)
        for name in ("log", "log_folds", "log_rows", "log_search", "log_source", "log_text")
    ),
    *(StaticFile(f"{name}.js", JAVASCRIPT, gzipped=True) for name in ("htmx.min", "sse.min", "uPlot.iife.min")),
    StaticFile("uPlot.min.css", CSS, gzipped=True),
    StaticFile("icon.svg", SVG),
)


def add_console(
    routes: Routes,
    *,
    service: Service,
    access: Access,
    rates: RateLimits,
    party: RelyingParty,
    policy: SignUpPolicy,
    mail: SignInMail,
    sign_in: ProviderSignIn,
    url: str,
) -> Site:
    """Route the pages of people and their accounts; return what the other pages build on."""
    storage, engine, clock = service.storage, service.engine, service.clock
    pages, cookies = Pages(), Cookies(storage, rates)
    site = Site(service, pages, cookies)
    routes.add_page("/login", LoginPage(pages, cookies, party, policy, engine, sign_in.providers, url))
    for kind in ("verify", "recover", "owner"):
        routes.add_page(f"/login/{kind}", LinkPage(pages, party, kind))
    mails = MailForms(pages, cookies, mail, rates)
    routes.add_page("/login/recover/begin", mails, "recover")
    routes.add_page("/login/sign-up", mails, "sign_up")
    routes.add_page("/login/sent", mails, "sent")
    routes.add_page("/login/session", SessionCookieResource(cookies, access, rates))

    with_provider = ProviderLoginPage(sign_in, cookies, rates, url, site.serving.signer, clock)
    routes.add_page("/login/with/{provider}", with_provider)
    routes.add_page("/login/with/google/callback", with_provider, "google")
    routes.add_page("/login/with/github/callback", with_provider, "github")
    routes.add_page("/login/with/{provider}/callback", with_provider, "oidc")

    routes.add_page("/account", AccountPage(storage, pages, cookies, party, sign_in.providers))
    routes.add_page("/account/sign-out", SignOutForm(cookies))
    back = leads_to(lambda *_: "account")
    routes.add_page("/account/profile", OperationForm(site, user.update_current_user, back))
    form = OperationForm(site, mail_settings.update_mail_settings, back, _mail_wanted)
    routes.add_page("/account/mail", form)
    routes.add_page("/account/mail/stop", MailStopPage(storage, pages, rates))
    form = OperationForm(site, sessions.end_session, leads_to(lambda *_: "account#sessions"))
    routes.add_page("/account/sessions/{id}/end", form)
    # The key is shown in this response alone, so there is no redirect to a page that has it.
    form = OperationForm(site, api_tokens.create_api_token, shows(site, "api_key"))
    routes.add_page("/account/api-keys", form)
    revoked = OperationForm(site, api_tokens.revoke_api_token, leads_to(lambda *_: "account#api-keys"))
    routes.add_page("/account/api-keys/{id}/revoke", revoked)

    form = OperationForm(site, passkeys.begin_passkey, shows_json)
    routes.add_page("/account/passkeys/options", form)
    back = leads_to(lambda *_: "account#passkeys")
    routes.add_page("/account/passkeys", OperationForm(site, passkeys.finish_passkey, back, passkey_of))
    routes.add_page("/account/passkeys/{uuid}/delete", OperationForm(site, passkeys.delete_passkey, back))
    back = leads_to(lambda *_: "account#identities")
    routes.add_page("/account/identities/{id}/delete", OperationForm(site, identities.delete_identity, back))
    routes.add_page("/account/close", ClosingForm(site))

    cli_login = CliLoginPage(storage, pages, cookies)
    routes.add_page("/cli-login", cli_login)
    for path, suffix in (("transfer", "transfer"), ("transfer-v2", "transfer_v2"), ("code", "code"), ("done", "done")):
        routes.add_page(f"/cli-login/{path}", cli_login, suffix)

    page = InvitesPage(pages, cookies)
    routes.add_page("/invites", page)
    accepted = leads_to(lambda *_: "invites/accepted")
    routes.add_page("/invites/accept", OperationForm(site, invites.accept_invite, accepted))
    routes.add_page("/invites/accepted", page, "accepted")

    return site


def add_build_pages(
    routes: Routes,
    site: Site,
    *,
    url: str,
    tokens: LogTokens,
    ranges: LogRanges,
    rates: RateLimits,
    slots: StreamSlots,
    addresses: ClientAddresses,
    pager: Pager,
) -> None:
    """Route the pages of pipelines, builds, logs and organizations, and the files of all pages.

    The resources of the API that they show are routed again, for the caller whose session the browser has.
    """
    routes.add_page("/", HomePage(site, url))
    routes.add_page("/{org}", OrganizationPage(site, url))
    routes.add_page("/{org}/pipelines/{pipeline}", PipelinePage(site))

    add_operation_pages(routes, site, url)
    add_notification_pages(routes, site)
    add_organization_pages(routes, site, url)

    build = "/{org}/pipelines/{pipeline}/builds/{number}"
    routes.add_page(build, BuildPage(site))
    routes.add_page(f"{build}/live", BuildEvents(site, slots, addresses))
    artifact = ArtifactPage(site)
    routes.add_page(f"{build}/artifacts/{{id}}", artifact)
    routes.add_page(f"{build}/artifacts/{{id}}/image", artifact, "image")
    door = HttpDoor(site.service, site.access, pager, rates)
    routes.add_page(f"{build}/artifacts/{{id}}/download", door.resource(download_artifact))

    job = f"{build}/jobs/{{job_id}}"
    log_access = LogAccess(site.storage, site.access, tokens, rates, addresses)
    routes.add_page(job, JobPage(site, log_access))
    routes.add_page(f"{job}/log", JobLogResource(site.storage, log_access, ranges))
    parts = LogParts(site, log_access, slots)
    for part in ("outline", "search", "times"):
        routes.add_page(f"{job}/log/{part}", parts, part)

    routes.add_page("/console/static/{file}", StaticFilesResource("api.console", *_FILES))


def _mail_wanted(fields: Mapping[str, str]) -> dict[str, bool]:
    """Return the body of a form whose box is sent only if it is ticked."""
    return {"builds": fields.get("builds") == "on"}
