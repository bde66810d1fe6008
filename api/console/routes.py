"""The paths of the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.account import AccountPage, ClosingForm, InvitesPage, SignOutForm, api_key_of, passkey_of
from api.console.artifacts import ArtifactPage
from api.console.builds.events import BuildEvents
from api.console.builds.page import BuildPage
from api.console.cli_login import add_cli_login_pages
from api.console.environments import add_environment_pages
from api.console.home import HomePage, OrganizationPage
from api.console.insights import OrganizationInsights, PipelineInsightsFile
from api.console.login import LinkPage, LoginPage, SentPage, SessionCookieResource
from api.console.logs import JobPage, LogParts
from api.console.mail_stop import MailStopPage
from api.console.manual import add_manual_pages
from api.console.notifications import add_notification_pages
from api.console.operation_form import OperationForm, VisitorsForm, leads_to, shows, shows_json
from api.console.operation_routes import add_operation_pages
from api.console.organization import add_organization_pages
from api.console.pages import ThemePage
from api.console.pipelines import PipelinePage
from api.console.previews import add_preview_pages
from api.console.provider_login import ProviderLoginPage
from api.console.search import SearchPage
from api.console.source_hosts import add_source_host_pages
from api.console.terminals import add_terminal_pages
from api.doors.http import HttpDoor
from api.http.files import CSS, JAVASCRIPT, SVG, StaticFile, StaticFilesResource
from api.logs.access import LogAccess
from api.logs.log import JobLogResource
from api.operations import api_tokens, identities, invites, mail_settings, passkeys, sessions, sign_up, user
from api.operations.artifacts import download_artifact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.console.site import Site
    from api.openapi.operations import Routes

_FILES = (
    *(StaticFile(f"{name}.css", CSS) for name in ("tokens", "console", "builds", "log", "manual", "terminal")),
    *(
        StaticFile(f"{name}.js", JAVASCRIPT)
        for name in ("page", "passkeys", "live", "events", "forms", "copy", "graph", "owner", "plot")
    ),
    *(
        StaticFile(f"{name}.js", JAVASCRIPT)
        for name in ("log", "log_folds", "log_rows", "log_search", "log_source", "log_text")
    ),
    *(StaticFile(f"{name}.js", JAVASCRIPT) for name in ("terminal", "terminal_styles")),
    *(
        StaticFile(f"{name}.js", JAVASCRIPT, gzipped=True)
        for name in ("htmx.min", "sse.min", "uPlot.iife.min", "xterm.min", "xterm_fit.min")
    ),
    StaticFile("uPlot.min.css", CSS, gzipped=True),
    StaticFile("xterm.min.css", CSS, gzipped=True),
    StaticFile("icon.svg", SVG),
)


def add_pages(routes: Routes, site: Site) -> None:
    """Route all pages, and the files that they load."""
    _add_account_pages(routes, site)
    _add_build_pages(routes, site)
    add_manual_pages(routes, site)
    if site.owners_box is not None:
        from api.console.host.pages import add_host_pages  # noqa: PLC0415 - the owner is one person

        add_host_pages(routes, site, site.owners_box())
    routes.add_page("/console/theme", ThemePage())
    routes.add_page("/console/static/{file}", StaticFilesResource("api.console", *_FILES))


def _add_account_pages(routes: Routes, site: Site) -> None:
    """Route the pages of people and their accounts."""
    storage, pages, cookies, party, rates = site.storage, site.pages, site.cookies, site.party, site.rates
    routes.add_page("/login", LoginPage(site))
    for kind in ("verify", "recover", "owner"):
        routes.add_page(f"/login/{kind}", LinkPage(pages, party, kind))
    sent = leads_to(lambda *_: "login/sent")
    for path, performed in (("recover/begin", sign_up.begin_recovery), ("sign-up", sign_up.begin_sign_up)):
        routes.add_page(f"/login/{path}", VisitorsForm(site, performed, sent))
    routes.add_page("/login/sent", SentPage(pages))
    routes.add_page("/login/session", SessionCookieResource(cookies, site.by_token, rates))

    with_provider = ProviderLoginPage(site)
    routes.add_page("/login/with/{provider}", with_provider)
    routes.add_page("/login/with/google/callback", with_provider, "google")
    routes.add_page("/login/with/github/callback", with_provider, "github")
    routes.add_page("/login/with/{provider}/callback", with_provider, "oidc")

    routes.add_page("/account", AccountPage(storage, pages, cookies, party, site.later.identities))
    routes.add_page("/account/sign-out", SignOutForm(cookies))
    back = leads_to(lambda *_: "account")
    routes.add_page("/account/profile", OperationForm(site, user.update_current_user, back))
    form = OperationForm(site, mail_settings.update_mail_settings, back, _mail_wanted)
    routes.add_page("/account/mail", form)
    routes.add_page("/account/mail/stop", MailStopPage(storage, pages, rates))
    form = OperationForm(site, sessions.end_session, leads_to(lambda *_: "account#sessions"))
    routes.add_page("/account/sessions/{id}/end", form)
    # The key is shown in this response alone, so there is no redirect to a page that has it.
    form = OperationForm(site, api_tokens.create_api_token, shows(site, "api_key"), api_key_of)
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

    add_cli_login_pages(routes, site)

    page = InvitesPage(pages, cookies)
    routes.add_page("/invites", page)
    accepted = leads_to(lambda *_: "invites/accepted")
    routes.add_page("/invites/accept", OperationForm(site, invites.accept_invite, accepted))
    routes.add_page("/invites/accepted", page, "accepted")


def _add_build_pages(routes: Routes, site: Site) -> None:
    """Route the pages of pipelines, builds, logs, organizations and source hosts.

    The resources of the API that they show are routed again, for the caller whose session the browser has.
    """
    url = site.api_url
    routes.add_page("/", HomePage(site, url))
    routes.add_page("/search", SearchPage(site))
    routes.add_page("/{org}", OrganizationPage(site, url))
    routes.add_page("/{org}/pipelines/{pipeline}", PipelinePage(site))
    routes.add_page("/{org}/pipelines/{pipeline}/insights.csv", PipelineInsightsFile(site))
    routes.add_page("/{org}/insights", OrganizationInsights(site))
    routes.add_page("/{org}/insights.csv", OrganizationInsights(site), "file")

    add_operation_pages(routes, site, url)
    add_notification_pages(routes, site)
    add_organization_pages(routes, site, url)
    add_environment_pages(routes, site)
    add_source_host_pages(routes, site)

    build = "/{org}/pipelines/{pipeline}/builds/{number}"
    routes.add_page(build, BuildPage(site))
    routes.add_page(f"{build}/live", BuildEvents(site, site.slots, site.addresses))
    artifact = ArtifactPage(site)
    routes.add_page(f"{build}/artifacts/{{id}}", artifact)
    routes.add_page(f"{build}/artifacts/{{id}}/image", artifact, "image")
    routes.add_page(f"{build}/artifacts/{{id}}/look", artifact, "look")
    door = HttpDoor(site.service, site.access, site.pager, site.rates)
    routes.add_page(f"{build}/artifacts/{{id}}/download", door.resource(download_artifact))

    job = f"{build}/jobs/{{job_id}}"
    log_access = LogAccess(site.storage, site.access, site.serving.log_tokens, site.rates, site.addresses)
    routes.add_page(job, JobPage(site, log_access))
    logs = JobLogResource(site.storage, log_access, site.ranges)
    routes.add_page(f"{job}/log", logs)
    routes.add_page(f"{job}/services/{{service}}/log", logs, "service")
    parts = LogParts(site, log_access, site.slots)
    for part in ("outline", "search", "times"):
        routes.add_page(f"{job}/log/{part}", parts, part)
    add_terminal_pages(routes, site, job)
    add_preview_pages(routes, site, build)


def _mail_wanted(fields: Mapping[str, str]) -> dict[str, bool]:
    """Return the body of a form whose box is sent only if it is ticked."""
    return {"builds": fields.get("builds") == "on"}
