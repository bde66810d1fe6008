"""The paths of the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.account import AccountForms, AccountPage, RootPage
from api.console.cli_login import CliLoginPage
from api.console.cookies import Cookies
from api.console.invites import InvitesPage
from api.console.login import LinkPage, LoginPage, MailForms, SessionCookieResource
from api.console.pages import Pages
from api.console.provider_login import ProviderLoginPage
from api.console.ways_in import ClosingForm, PasskeyForms
from api.http.static_files import CSS, JAVASCRIPT, StaticFile, StaticFilesResource

if TYPE_CHECKING:
    from api.engine import EngineInterface
    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits
    from api.openapi.operations import Routes
    from api.sign_in.account_passkeys import AccountPasskeys
    from api.sign_in.mail import SignInMail
    from api.sign_in.providers.sign_in import ProviderSignIn
    from api.sign_in.relying_party import RelyingParty
    from api.signing import Signer
    from storage import Clock, SignUpPolicy, Storage

__all__ = ["add_console"]


def add_console(
    routes: Routes,
    *,
    storage: Storage,
    engine: EngineInterface,
    access: Access,
    rates: RateLimits,
    party: RelyingParty,
    policy: SignUpPolicy,
    mail: SignInMail,
    passkeys: AccountPasskeys,
    sign_in: ProviderSignIn,
    url: str,
    signer: Signer,
    clock: Clock,
) -> Pages:
    """Route every page of the console; return what writes them."""
    pages, cookies = Pages(), Cookies(storage, rates)
    routes.add_page("/", RootPage(cookies))
    routes.add_page("/login", LoginPage(pages, cookies, party, policy, engine, sign_in.providers, url))
    for kind in ("verify", "recover", "owner"):
        routes.add_page(f"/login/{kind}", LinkPage(pages, party, kind))
    mails = MailForms(pages, cookies, mail, rates)
    routes.add_page("/login/recover/begin", mails, "recover")
    routes.add_page("/login/sign-up", mails, "sign_up")
    routes.add_page("/login/sent", mails, "sent")
    routes.add_page("/login/session", SessionCookieResource(cookies, access, rates))

    with_provider = ProviderLoginPage(sign_in, cookies, rates, url, signer, clock)
    routes.add_page("/login/with/{provider}", with_provider)
    routes.add_page("/login/with/google/callback", with_provider, "google")
    routes.add_page("/login/with/github/callback", with_provider, "github")
    routes.add_page("/login/with/{provider}/callback", with_provider, "oidc")

    routes.add_page("/account", AccountPage(storage, pages, cookies, party, sign_in.providers))
    forms = AccountForms(storage, pages, cookies)
    routes.add_page("/account/sign-out", forms, "sign_out")
    routes.add_page("/account/profile", forms, "profile")
    routes.add_page("/account/sessions/{id}/end", forms, "end_session")
    routes.add_page("/account/api-keys", forms, "api_key")
    routes.add_page("/account/api-keys/{id}/revoke", forms, "revoke_api_key")

    ways = PasskeyForms(storage, engine, cookies, passkeys)
    routes.add_page("/account/passkeys/options", ways, "options")
    routes.add_page("/account/passkeys", ways, "add")
    routes.add_page("/account/passkeys/{uuid}/delete", ways, "delete")
    routes.add_page("/account/identities/{id}/delete", ways, "delete_identity")
    routes.add_page("/account/close", ClosingForm(storage, engine, cookies))

    cli_login = CliLoginPage(storage, pages, cookies)
    routes.add_page("/cli-login", cli_login)
    for path, suffix in (("transfer", "transfer"), ("transfer-v2", "transfer_v2"), ("code", "code"), ("done", "done")):
        routes.add_page(f"/cli-login/{path}", cli_login, suffix)

    invites = InvitesPage(storage, pages, cookies)
    routes.add_page("/invites", invites)
    routes.add_page("/invites/accept", invites, "accept")
    routes.add_page("/invites/accepted", invites, "accepted")

    files = StaticFile("console.css", CSS), StaticFile("passkeys.js", JAVASCRIPT)
    routes.add_page("/console/static/{file}", StaticFilesResource("api.console", *files))
    return pages
