"""The console's pages of organizations and accounts in a real browser, against the real daemon."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from secrets import token_urlsafe

import httpx
from playwright.sync_api import Browser, Page, Route, expect

from storage import Role, Storage, SystemClock
from tests.e2e.console.visitor import Visitor, visitor
from tests.e2e.daemon import Client, Daemon, Pipeline

SLOW = '{"version": "0", "steps": [{"type": "command", "key": "slow", "cmd": "sleep 600", "label": "Slow"}]}'


def join(daemon: Daemon, guest: Client, host: Client, role: Role) -> None:
    """Make a user a member of another's organization."""
    with closing(Storage.open(daemon.state, SystemClock())) as storage:
        user, organization = storage.users.by_email(guest.email), storage.organizations.by_slug(host.org)
        assert user is not None
        assert organization is not None
        storage.organizations.add_member(organization.id, user.id, role)


def furnish(daemon: Daemon, client: Client, pipeline: Pipeline) -> list[str]:
    """Fill the pages of an organization; return their paths below it."""
    hook = {"kind": "webhook", "url": "https://hooks.example.org/builds"}
    made = client.request("POST", f"pipelines/{pipeline.slug}/notifications", json=hook).json()
    client.request("POST", f"pipelines/{pipeline.slug}/notifications/{made['id']}/test")
    with closing(Storage.open(daemon.state, SystemClock())) as storage:
        organization = storage.organizations.by_slug(client.org)
        assert organization is not None
        repository = storage.repositories.connect(organization.id, "https://127.0.0.1:9/a/b.git", "acme/b", 86_400)
        storage.deliveries.receive("git", "push", f"{client.org}-{'x' * 60}", repository, b'{"ref": "main"}' * 40)
        (delivery,) = storage.deliveries.latest(1)
    notifications = f"/pipelines/{pipeline.slug}/notifications"
    return [
        "/settings",
        "/billing",
        "/caches",
        "/audit",
        "/repositories",
        f"/repositories/{repository.uuid}",
        f"/repositories/{repository.uuid}/deliveries/{delivery.uuid}",
        notifications,
        f"{notifications}/{made['id']}",
    ]


def test_pages_have_no_barriers(daemon: Daemon, browser: Browser, client: Client, pipeline: Pipeline):
    paths = furnish(daemon, client, pipeline)
    with visitor(browser, client, bypass_csp=True) as ada:
        found = {}
        for path in paths:
            ada.open(path)
            found[path] = ada.barriers()
        assert ada.faults == []
        manual = ("/docs", "/docs/language", "/docs/commands", "/docs/tutorial", "/docs/search?q=push")
        for path in ("/billing/paid", "/billing/canceled", "/no/where", "/docs/errors", "/docs/errors/busy", *manual):
            ada.page.goto(f"{ada.url}{path}")
            found[path] = ada.barriers()
        assert {path: each for path, each in found.items() if each} == {}


def test_the_pages_of_the_hosts_owner_have_no_barriers(
    daemon: Daemon, browser: Browser, client: Client, pipeline: Pipeline
):
    pipeline.build(SLOW)
    with visitor(browser, client, bypass_csp=True) as ada:
        ada.page.goto(daemon.command("console", "link").stdout.strip().replace("127.0.0.1", "localhost"))
        assert ada.page.url.endswith("/admin/sign-in"), "the token has left the address bar"
        found = {"/sign-in": ada.barriers()}
        ada.send("Sign in")
        expect(ada.page.get_by_role("heading", name="Host", exact=True)).to_be_visible()
        for page in ("", "/queue", "/vms", "/members", "/images", "/caches", "/disk", "/users", "/doctor", "/audit"):
            ada.page.goto(f"{ada.url}/admin{page}")
            found[page] = ada.barriers()
        assert {path: each for path, each in found.items() if each} == {}
        ada.page.goto(f"{ada.url}/admin/vms")
        ada.send(ada.page.get_by_role("button", name="End the VM").first)
        expect(ada.page.get_by_role("heading", name="VMs of the host")).to_be_visible()
        assert ada.faults == []


def test_two_people_see_what_the_other_does(daemon: Daemon, browser: Browser, client: Client, pipeline: Pipeline):
    other = Client.create(daemon, f"other-of-{client.email}")
    join(daemon, other, client, Role.MEMBER)
    number = pipeline.build(SLOW).path.rpartition("/")[2]
    with visitor(browser, client) as ada, visitor(browser, other) as eve:
        build = f"/pipelines/{pipeline.slug}/builds/{number}"
        page = ada.open(build)
        eve.page.goto(page.url)
        expect(eve.page.locator("#job-0 .state")).to_have_text("Running")
        ada.send("Cancel")
        expect(eve.page.locator("#summary")).to_have_attribute("data-state", "canceled")
        eve.send("Rebuild")
        assert eve.page.url.endswith(f"/builds/{int(number) + 1}")
        eve.send("Cancel")
        expect(eve.page.locator("#summary")).to_have_attribute("data-state", re.compile("^cancel"))

        eve.page.goto(f"{ada.url}/{client.org}/pipelines/{pipeline.slug}")
        eve.page.get_by_text("Start a build", exact=True).click()
        eve.page.get_by_label("Commit").fill("c0ffee")
        ada.open("/settings")
        ada.send(f"Remove {other.email}")
        expect(page.get_by_text(other.email)).to_have_count(0)
        eve.send("Start the build")
        expect(eve.page.get_by_role("heading", name="Not Found")).to_be_visible()
        assert ada.faults == []


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the element with this name has the focus, as somebody without a mouse does."""
    for _ in range(80):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "(e => e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent)(document.activeElement)"
        )
        if focused.strip() == name:
            return
    raise AssertionError(f"Tab does not lead to {name}")


def test_everything_is_done_by_keyboard(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client) as ada:
        page = ada.open()
        tab_to(page, "Skip to content")
        page.keyboard.press("Enter")
        tab_to(page, "Settings")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("Settings"))
        tab_to(page, "E-mail address")
        page.keyboard.type("guest@example.org")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Invited")).to_be_visible()
        tab_to(page, "Done")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("Settings"))
        tab_to(page, "Revoke the invite of guest@example.org")
        page.keyboard.press("Space")
        expect(page.get_by_text("No invite is open.")).to_be_visible()
        ada.open(f"/pipelines/{pipeline.slug}/notifications")
        tab_to(page, "URL of the webhook; none for e-mail, which goes to the author of the commit")
        page.keyboard.type("https://hooks.example.org/builds")
        tab_to(page, "its recovery")
        page.keyboard.press("Space")
        tab_to(page, "Add")
        page.keyboard.press("Enter")
        expect(page.get_by_text("whsec_")).to_be_visible()
        tab_to(page, "Send a test, and see what was sent")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="What is told")).to_be_visible()
        tab_to(page, "Send a test")
        page.keyboard.press("Enter")
        expect(page.get_by_text("What was sent")).to_be_visible()
        assert ada.faults == []


def test_an_account_is_kept_by_its_own_page(browser: Browser, client: Client):
    with visitor(browser, client) as ada, visitor(browser, client) as elsewhere:
        page = account(ada)
        page.get_by_label("Name", exact=True).fill("Ada <b>L</b>")
        ada.send(page.get_by_role("button", name="Save").first)
        expect(page.get_by_label("Name", exact=True)).to_have_value("Ada <b>L</b>")
        page.get_by_label("Mail about builds").uncheck()
        ada.send(page.get_by_role("button", name="Save").nth(1))
        expect(page.get_by_label("Mail about builds")).not_to_be_checked()

        page.get_by_label("What the new key is for").fill("robot")
        ada.send("Make an API key")
        key = page.get_by_label("robot").inner_text()
        assert client.request("GET", "/api/v0/user", headers={"Authorization": f"Bearer {key}"}).status_code == 200
        page.get_by_role("link", name="Done").click()
        ada.send("Revoke robot")
        assert key not in page.content()
        expect(page.get_by_role("button", name="Revoke robot")).to_have_count(0)
        assert client.request("GET", "/api/v0/user", headers={"Authorization": f"Bearer {key}"}).status_code == 401

        account(elsewhere)
        page.reload()
        ada.send(page.get_by_role("button", name=re.compile("End the session")))
        expect(page.get_by_role("button", name=re.compile("End the session"))).to_have_count(0)
        elsewhere.page.reload()
        expect(elsewhere.page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
        assert ada.faults == []


def test_a_page_takes_nothing_while_its_form_is_sent(browser: Browser, client: Client):
    """Text that was typed then would go with the page, and a second press would make a second key."""
    with visitor(browser, client) as ada:
        page = account(ada)
        seen = []

        def look(route: Route) -> None:
            seen.append(page.locator("main").get_attribute("inert"))
            route.continue_()

        page.route(page.url, look)
        page.get_by_label("What the new key is for").fill("robot")
        ada.send("Make an API key")
        expect(page.get_by_label("robot")).to_be_visible()
        assert seen == [""]


def test_a_form_is_usable_after_stop_was_pressed(browser: Browser, client: Client):
    with visitor(browser, client) as ada:
        page = account(ada)
        sent = []

        def hold(route: Route) -> None:
            if route.request.method == "POST" and not sent:
                sent.append(route)  # it gets no answer before Stop
            else:
                route.continue_()

        page.route("**/account/**", hold)
        field = page.get_by_label("What the new key is for")
        field.fill("robot")
        with page.expect_request(lambda request: request.method == "POST"):
            page.get_by_role("button", name="Make an API key").click(no_wait_after=True)
        page.context.new_cdp_session(page).send("Page.stopLoading")
        expect(page.get_by_role("alert")).to_contain_text("You stopped this")
        expect(page.locator("main")).not_to_have_attribute("inert", "")
        expect(field).to_have_value("robot")
        ada.send("Make an API key")
        expect(page.get_by_label("robot")).to_be_visible()


def account(person: Visitor) -> Page:
    """Open the page of a person's account."""
    person.page.goto(f"{person.url}/account")
    expect(person.page.get_by_role("heading", name="Account", exact=True)).to_be_visible()
    return person.page


def test_an_accounts_form_survives_the_end_of_its_session(browser: Browser, client: Client):
    with visitor(browser, client) as ada:
        page = account(ada)
        page.get_by_label("What the new key is for").fill("A name that nobody types twice")
        page.context.clear_cookies()
        page.get_by_role("button", name="Make an API key").click()
        expect(page.get_by_role("alert").filter(has_text="nothing was sent")).to_be_visible()
        expect(page.get_by_label("What the new key is for")).to_have_value("A name that nobody types twice")
        ada.sign_in(client)
        page.get_by_role("button", name="Make an API key").click()
        expect(page.get_by_label("A name that nobody types twice")).to_be_visible()


def test_a_restart_in_the_middle_of_a_form_loses_nothing(daemon: Daemon, browser: Browser, client: Client):
    with visitor(browser, client) as ada:
        page = ada.open("/settings")
        page.locator("#secret-name").fill("KEY")
        page.locator("#secret-value").fill("a value that nobody types twice")
        address = daemon.url.removeprefix("http://")
        assert daemon.stop() == 0
        page.get_by_role("button", name="Set the secret").click()
        expect(page.get_by_role("alert")).to_contain_text("does not answer")
        daemon.start(CI_DAEMON_HTTP_LISTEN=address)
        page.get_by_role("button", name="Set the secret").click()
        expect(page.locator("code", has_text="KEY")).to_be_visible()


def test_a_command_line_on_the_loopback_is_signed_in(browser: Browser, client: Client):
    """As the public one does it: it listens for the browser, and claims its session by the nonce."""
    nonce = token_urlsafe(32)
    asked: list[str] = []

    class CommandLine(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"Login received.")

    listener = HTTPServer(("127.0.0.1", 0), CommandLine)
    with visitor(browser, client) as ada, ended_server(listener):
        ada.page.goto(f"{ada.url}/cli-login?port={listener.server_port}&nonce={nonce}")
        ada.send("Sign in the command line")
        expect(ada.page.locator("body")).to_have_text("Login received.")
        assert ada.page.url == f"http://localhost:{listener.server_port}/callback"
    assert asked[0] == "/callback"
    claimed = httpx.post(f"{client.daemon.url}/api/v0/auth/cli/claim", json={"nonce": nonce}, timeout=30)
    assert claimed.status_code == 200
    whoami = httpx.get(
        f"{client.daemon.url}/api/v0/user", headers={"Authorization": f"Bearer {claimed.json()['token']}"}, timeout=30
    )
    assert whoami.json()["email"] == client.email


@contextmanager
def ended_server(server: HTTPServer) -> Iterator[None]:
    """Serve in a thread, and end it."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
