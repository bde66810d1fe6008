"""Notifications of a pipeline in the console: made, switched, tested, rotated, sent again and deleted."""

from __future__ import annotations

from storage import Role
from tests.api.console.browser import Browser, main_of
from tests.api.world import Account, PipelinePath, World

LIST = "/ada-example-org/pipelines/demo/notifications"
FORM = LIST[1:]
HOOK = "https://hooks.example.org/T0/very-secret"


def made(browser: Browser, **fields: str) -> str:
    """Make a notification; return the path of its page."""
    shown = browser.send(LIST, f"{FORM}/create", **{"kind": "webhook", "url": HOOK, **fields})
    assert shown.status_code == 200, shown.text
    return f"{LIST}/{main_of(shown).partition('/notifications/')[2].partition(chr(34))[0]}"


def test_a_webhook_is_made_with_a_secret_that_is_shown_once(ada: Account, pipeline: PipelinePath):
    browser = Browser.of(ada)
    chosen = {"build.recovered": "yes"}
    shown = browser.send(LIST, f"{FORM}/create", kind="webhook", url=HOOK, **chosen)
    secret = shown.text.partition("whsec_")[2].partition("<")[0]
    assert len(secret) > 20
    listed = browser.get(LIST).text
    assert "Webhook to https://hooks.example.org" in listed
    assert "its recovery" in listed
    assert secret not in listed
    assert "very-secret" not in listed


def test_a_notification_is_switched_tested_and_sent_again(ada: Account, pipeline: PipelinePath):
    browser, storage = Browser.of(ada), ada.world.storage
    page = made(browser)
    browser.send(page, f"{page[1:]}/switch")
    assert "<strong>Disabled</strong>" in browser.get(page).text
    browser.send(page, f"{page[1:]}/switch")
    assert "<strong>Disabled</strong>" not in browser.get(page).text
    assert browser.send(page, f"{page[1:]}/test").headers["Location"].endswith(page)
    shown = browser.get(page).text
    assert "waiting" in shown
    assert "What was sent" in shown
    delivery = shown.partition("/deliveries/")[2].partition("/")[0]
    assert browser.send(page, f"{page[1:]}/deliveries/{delivery}/redeliver").status_code == 303
    assert storage.notification_deliveries.by_uuid(delivery) is not None
    assert "whsec_" in browser.send(page, f"{page[1:]}/rotate").text
    assert browser.send(page, f"{page[1:]}/delete").headers["Location"].endswith(LIST)
    assert browser.get(page).status_code == 404
    assert "Nobody is told." in browser.get(LIST).text


def test_mail_needs_no_url(ada: Account, pipeline: PipelinePath):
    browser = Browser.of(ada)
    page = made(browser, kind="email", url="", to_creator="yes")
    assert ada.world.storage.notifications.page(1, 1, None).rows[0].to_creator
    assert "whsec_" not in browser.get(page).text
    assert "/rotate" not in browser.get(page).text


def test_only_admins_see_deliveries(world: World, ada: Account, bob: Account, pipeline: PipelinePath):
    page = made(Browser.of(ada))
    assert Browser.of(bob).get(LIST).status_code == 404
    bob.join(ada, Role.MEMBER)
    assert FORM + "/create" not in Browser.of(bob).get(LIST).text
    assert Browser.of(bob).get(page).status_code == 403
    assert Browser(world).get(page).status_code == 303


def test_a_url_of_another_scheme_is_refused_on_a_page(ada: Account, pipeline: PipelinePath):
    refused = Browser.of(ada).send(LIST, f"{FORM}/create", kind="webhook", url="ftp://example.org")
    assert (refused.status_code, "<h1>" in refused.text) == (422, True)
