"""The pages for people who are not signed in."""

from __future__ import annotations

import pytest

from api import HttpSettings, IdentitySettings
from storage import Storage
from tests.api.console.browser import Browser
from tests.api.world import World
from tests.clock import ManualClock

RECOVER, SIGN_UP = "login/recover/begin", "login/sign-up"


@pytest.fixture
def open_world(storage: Storage, clock: ManualClock, settings: HttpSettings) -> World:
    world = World.create(storage, clock, settings, identity=IdentitySettings(signup="open"))
    world.sign_up("ada@example.org")
    return world


def mails(world: World) -> list[tuple[str, str]]:
    return [(mail.recipient, mail.kind) for mail in world.storage.mail.listed(10)]


def test_a_visitor_asks_for_a_magic_link(open_world: World):
    answered = Browser(open_world).send("/login", RECOVER, email=" Ada@example.org ")
    assert (answered.status_code, answered.headers["Location"]) == (303, "./../../login/sent")
    assert mails(open_world) == [("ada@example.org", "magic_link")]


def test_a_visitor_signs_up(open_world: World):
    answered = Browser(open_world).send("/login", SIGN_UP, email="eve@example.org", name="Eve")
    assert (answered.status_code, answered.headers["Location"]) == (303, "./../login/sent")
    assert mails(open_world) == [("eve@example.org", "verification")]


@pytest.mark.parametrize("action", [RECOVER, SIGN_UP])
def test_a_form_of_another_site_sends_no_mail(open_world: World, action: str):
    """It has no token, or one for the secret of another browser."""
    fields = {"email": "ada@example.org", "name": "Ada"}
    strange = Browser(open_world).fields("/login", action)
    victim = Browser(open_world)
    victim.get("/login")
    assert victim.post(f"/{action}", {**strange, **fields}).status_code == 403
    assert victim.post(f"/{action}", fields).status_code == 403
    assert Browser(open_world).post(f"/{action}", {**strange, **fields}).status_code == 403
    assert mails(open_world) == []


def test_links_are_limited_as_in_the_api(open_world: World):
    browser = Browser(open_world)
    statuses = {browser.send("/login", RECOVER, email="ada@example.org").status_code for _ in range(31)}
    assert statuses == {303, 429}


def test_a_closed_service_offers_no_sign_up(storage: Storage, clock: ManualClock, settings: HttpSettings):
    world = World.create(storage, clock, settings, identity=IdentitySettings(signup="closed"))
    shown = Browser(world).get("/login").text
    assert RECOVER in shown
    assert SIGN_UP not in shown


def test_without_a_mail_server_no_link_is_offered(open_world: World):
    open_world.engine.sends_mail = False
    shown = Browser(open_world).get("/login").text
    assert RECOVER not in shown
    assert SIGN_UP not in shown
    assert "ci-daemon user link" in shown
