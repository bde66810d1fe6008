"""Another front end: links lead to its pages, and without one to those of the console."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from actors import JobSettings, PoolSettings
from actors.mail import Mails
from api.payments.provider import PaymentProvider
from api.settings import HttpSettings
from storage import Role, Storage
from tests.actors.conftest import settings_with
from tests.api.world import HELLO, PipelinePath, World
from tests.clock import ManualClock
from tests.payment_provider import LocalProvider

SERVICE = "https://ci.example.org"
OTHER = HttpSettings(
    base_url=SERVICE,
    front_end_url="https://app.example.org/",
    front_end_verify_path="/welcome",
    front_end_invite_path="/join?from=mail",
    front_end_paid_path="/wallet/thanks",
    front_end_build_path="/o/{org}/p/{pipeline}/{number}",
)


def mailed(storage: Storage, clock: ManualClock, http: HttpSettings) -> str:
    """Return the texts of all mails with links, one after the other."""
    mails, until, texts = Mails(storage, http.url, http.front_end(http.url)), clock.now() + timedelta(hours=1), []
    mails.verification("ada@example.org", "Ada", "t-verify", until)
    mails.magic_link("ada@example.org", "Ada", "t-recover", until)
    mails.invite("bob@example.org", "ada@example.org", "acme", Role.MEMBER, "t-invite", until)
    while (mail := storage.mail.next()) is not None:
        letter = storage.mail.letter(mail)
        assert letter is not None
        texts.append(letter.text)
        storage.mail.sent(mail)
    return "".join(texts)


def test_mails_lead_to_the_front_end(storage: Storage, clock: ManualClock):
    text = mailed(storage, clock, OTHER)
    assert "https://app.example.org/welcome#t-verify" in text
    assert "https://app.example.org/login/recover#t-recover" in text
    assert "https://app.example.org/join?from=mail#t-invite" in text
    assert f"{SERVICE}/api/v0/invites/accept" in text, "the API stays where it is"


def test_without_one_mails_lead_to_the_console(storage: Storage, clock: ManualClock):
    text = mailed(storage, clock, HttpSettings(base_url=SERVICE))
    assert f"{SERVICE}/login/verify#t-verify" in text
    assert f"{SERVICE}/invites#t-invite" in text


def test_a_build_is_shown_at_the_front_end(pipeline: PipelinePath):
    build, settings = pipeline.build(pipeline_ir=HELLO).stored, settings_with(PoolSettings(), JobSettings())
    other = replace(settings, base_url=SERVICE, front_end=OTHER.front_end(SERVICE))
    assert other.pages.page_of(build) == f"https://app.example.org/o/{build.organization_slug}/p/demo/1"
    assert replace(settings, base_url=SERVICE).pages.page_of(build) == f"{SERVICE}/{build.page}"


def test_a_push_is_answered_with_the_front_end(storage: Storage, clock: ManualClock):
    world = World.create(storage, clock, OTHER)
    pipeline = world.sign_up("ada@example.org").pipeline("demo")
    build = pipeline.build(pipeline_ir=HELLO).stored
    repository = storage.repositories.connect(build.organization_id, "/srv/git/acme/web.git", "acme/web", 60)
    ref, commit = "refs/heads/main", "a" * 40
    record = partial(storage.push_outcomes.record, repository.id, ref, commit, "1 build: demo #1", (build.page,))
    world.engine.during_waits.append(record)
    token = storage.repositories.mint_token(repository)
    headers = {"X-Delivery-Id": "1", "Authorization": f"Bearer {token}"}
    told = world.anonymous.simulate_post(
        "/webhooks/git", params={"wait": "3"}, body=f"{'b' * 40} {commit} {ref}\n", headers=headers
    )
    address = f"https://app.example.org/o/{build.organization_slug}/p/demo/1"
    assert told.text == f"ci-daemon: main: demo #1 {address}\n"


def test_a_payment_returns_to_the_front_end(pipeline: PipelinePath):
    organization = pipeline.account.world.storage.organizations.by_id(pipeline.account.org_id)
    assert organization is not None
    with LocalProvider.serving() as local:
        for http, paid, canceled in (
            (OTHER, "https://app.example.org/wallet/thanks", "https://app.example.org/billing/canceled"),
            (HttpSettings(base_url=SERVICE), f"{SERVICE}/billing/paid", f"{SERVICE}/billing/canceled"),
        ):
            PaymentProvider(local.settings(), http.front_end(http.url)).begin(organization, 500, paid)
            form = local.asked[-1].form
            assert (form["success_url"], form["cancel_url"]) == (paid, canceled)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("front_end_url", "app.example.org"),
        ("front_end_url", "javascript:alert(1)"),
        ("front_end_url", "https://app.example.org/?a=b"),
        ("front_end_verify_path", "welcome"),
        ("front_end_verify_path", "/wel come"),
        ("front_end_recover_path", "/in#token"),
        ("front_end_paid_path", "/{org}"),
        ("front_end_build_path", "/{organization}/{number}"),
        ("front_end_invite_path", ""),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(name: str, value: str):
    with pytest.raises(ValueError, match=f"^{name} must be a (URL|path) such as "):
        HttpSettings(**{name: value})  # type: ignore[arg-type] # one of them at a time
