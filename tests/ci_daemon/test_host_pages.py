"""The pages of the host's owner: what they show and do, and that nobody else sees them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms import ImageSettings
from api import HttpSettings
from api.operations.host import HostMember
from ci_daemon.box import ServingBox
from ci_daemon.config import Config
from ci_daemon.providers import open_images, open_providers
from storage import JobState, NewCacheEntry, Role, Shape, Storage
from tests import records
from tests.api.console.browser import Browser, main_of
from tests.api.world import Account, World, steps
from tests.clock import ManualClock
from tests.state import new_storage

OWNER = "__Host-owner"
PAGES = ("", "/queue", "/vms", "/members", "/images", "/caches", "/disk", "/users", "/doctor", "/audit")
FORMS = {
    "drain": {},
    "resume": {},
    "sign-out": {},
    "vms/some/end": {"provider": "sandbox"},
    "images/pull": {"reference": "debian:12-slim"},
    "images/remove": {"name": "debian:12"},
    "caches/clear": {},
    "users/add": {"email": "mallory@example.org", "name": "Mallory"},
    "users/link": {"email": "ada@example.org"},
    "users/remove": {"email": "ada@example.org"},
}
QUERIES = ("/queue?from=100", "/vms?sort=cost", "/users?q=ada", "/doctor?run=1", "/audit?actor=root")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def storage(tmp_path: Path, clock: ManualClock) -> Iterator[Storage]:
    storage = new_storage(tmp_path / "state", clock)
    yield storage
    storage.close()


@pytest.fixture
def world(storage: Storage, clock: ManualClock, images_dir: Path) -> World:
    config, state = Config(images=ImageSettings(dir=images_dir)), storage.directory
    images = open_images(state, config)
    providers = open_providers(state, config, images, clock)
    box = ServingBox(state, storage, clock, lambda: config, images, providers)
    return World.create(storage, clock, HttpSettings(base_url="https://ci.example.org/"), box=box)


@pytest.fixture
def ada(world: World) -> Account:
    return world.sign_up("ada@example.org", "Ada")


@pytest.fixture
def owner(world: World) -> Browser:
    """The browser of the host's owner."""
    return signed_in(world)


def signed_in(world: World) -> Browser:
    """Return a browser in which a link of the owner was opened."""
    browser, link = Browser(world), world.storage.owner_sessions.link("root")
    answered = browser.send("/admin/sign-in", "admin/sign-in", token=link)
    assert (answered.status_code, answered.headers["Location"]) == (303, "./../admin")
    return browser


def last_changes(storage: Storage) -> list[tuple[str, str, str, str | None]]:
    return [(each.actor, each.action, each.note, each.origin) for each in storage.audit.page(5, None).rows]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_strict_and_complete(owner: Browser, page: str):
    shown = owner.get(f"/admin{page}")
    assert shown.status_code == 200, shown.text
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=", shown.text)
    assert len(re.findall(r"<h1[ >]", shown.text)) == 1
    assert 'aria-current="page"' in shown.text
    for identifier in re.findall(r'<input id="([^"]+)"', shown.text):
        assert f'<label for="{identifier}">' in shown.text


def test_members_have_their_state_and_room(owner: Browser, monkeypatch: pytest.MonkeyPatch):
    member = HostMember("one", "Online", False, "", 8, 32768, 16384, 1, 2, ("debian:12",))
    gone = HostMember("two", "Offline", True, "no heartbeat", None, None, None, 0, 1, ())
    monkeypatch.setattr(ServingBox, "members", lambda _: (member, gone))
    text = " ".join(re.sub(r"<[^>]*>", " ", main_of(owner.get("/admin/members"))).split())
    assert "one 8 CPUs, 16.0 GiB of 32.0 GiB free · 1 VM, 2 snapshots · debian:12 online" in text
    assert "two 0 VMs, 1 snapshot · no heartbeat offline, draining" in text


def test_the_cookie_is_short_and_its_own(world: World):
    browser, link = Browser(world), world.storage.owner_sessions.link("root")
    answered = browser.send("/admin/sign-in", "admin/sign-in", token=link)
    cookie = answered.cookies[OWNER]
    assert (cookie.max_age, cookie.secure, cookie.http_only) == (3600, True, True)
    assert browser.get("/account").status_code == 303, "the owner of the host is no user"
    assert browser.get("/api/v0/user").status_code == 401
    world.clock.advance(3600)
    assert browser.get("/admin").status_code == 403


def test_a_link_signs_in_once_and_late_not_at_all(world: World):
    browser, link = Browser(world), world.storage.owner_sessions.link("root")
    fields = browser.fields("/admin/sign-in", "admin/sign-in")
    assert browser.post("/admin/sign-in", {**fields, "token": link}).status_code == 303
    refused = Browser(world, {name: value for name, value in browser.cookies.items() if name != OWNER})
    assert refused.post("/admin/sign-in", {**fields, "token": link}).status_code == 403
    late = world.storage.owner_sessions.link("root")
    world.clock.advance(15 * 60)
    assert refused.post("/admin/sign-in", {**fields, "token": late}).status_code == 403
    assert OWNER not in refused.cookies
    assert last_changes(world.storage)[:3] == [
        ("nobody", "openConsoleSession", "refused, console", "127.0.0.1"),
        ("nobody", "openConsoleSession", "refused, console", "127.0.0.1"),
        ("root", "openConsoleSession", "console", "127.0.0.1"),
    ]


def test_another_site_signs_nobody_in(world: World):
    link = world.storage.owner_sessions.link("root")
    assert Browser(world).post("/admin/sign-in", {"token": link}).status_code == 403
    assert world.storage.owner_sessions.open(link) is not None, "the link is as good as before"


def others(world: World, ada: Account) -> dict[str, Browser]:
    """Return the browsers of everybody else, also with what they may try in place of the owner's cookie."""
    admin, member = world.sign_up("bob@example.org"), world.sign_up("eve@example.org")
    admin.join(ada, Role.ADMIN)
    member.join(ada, Role.MEMBER)
    session = Browser.of(ada).cookies["__Host-session"]
    ended = signed_in(world)
    world.storage.owner_sessions.end(ended.cookies[OWNER])
    tried = {
        "an API key": ada.token,
        "a session": session,
        "a link": world.storage.owner_sessions.link("root"),
        "an ended session": ended.cookies[OWNER],
        "a link of a user": world.storage.sign_in_links.magic_link(ada.user),
        "a link of the first user": world.storage.sign_in_links.owner(),
        "nothing": "",
        "SQL": "' OR 1=1 --",
    }
    return {
        "a visitor": Browser(world),
        "an owner of an organization": Browser.of(ada),
        "an admin": Browser.of(admin),
        "a member": Browser.of(member),
        **{f"{name} as the cookie": Browser(world, {OWNER: token}) for name, token in tried.items()},
    }


def test_nobody_else_sees_a_page(world: World, ada: Account):
    for name, browser in others(world, ada).items():
        for path in (*PAGES, *QUERIES):
            shown = browser.get(f"/admin{path}")
            assert shown.status_code == 403, (name, path)
            assert "ci-daemon console link" in shown.text
        assert "/admin" not in main_of(browser.get("/docs")), name
    for path in (*PAGES, *QUERIES):
        assert ada.client.simulate_get(f"/admin{path}").status_code == 403
        assert ada.signed_in().simulate_get(f"/admin{path}").status_code == 403


def test_nobody_else_sends_a_form(world: World, ada: Account, owner: Browser):
    token = owner.fields("/admin", "admin/drain")["form_token"]
    before = world.storage.audit.last_id()
    for name, browser in others(world, ada).items():
        signs_in = world.storage.audit.last_id()
        for path, fields in FORMS.items():
            answered = browser.post(f"/admin/{path}", {**fields, "form_token": token})
            assert answered.status_code == 403, (name, path)
        assert world.storage.audit.last_id() == signs_in, "nothing was changed"
    assert world.storage.audit.last_id() > before, "the tries themselves were prepared"
    assert world.storage.switches.drained_since() is None
    assert world.storage.users.by_email("mallory@example.org") is None
    assert world.storage.users.by_email("ada@example.org") is not None


@pytest.mark.parametrize("path", FORMS)
def test_a_form_of_another_site_changes_nothing(world: World, ada: Account, owner: Browser, path: str):
    for token in ("", "0" * 64, signed_in(world).fields("/admin", "admin/drain")["form_token"]):
        before = world.storage.audit.last_id()
        answered = owner.post(f"/admin/{path}", {**FORMS[path], "form_token": token})
        assert (answered.status_code, world.storage.audit.last_id()) == (403, before)
    assert "was not made for your browser" in answered.text
    assert ada.user is not None


def test_the_owner_drains_and_resumes(world: World, owner: Browser):
    assert owner.send("/admin", "admin/drain").status_code == 303
    assert world.storage.switches.drained_since() is not None
    assert "drained <time" in owner.get("/admin").text
    assert "The host is drained" in owner.get("/admin/queue").text
    assert owner.send("/admin", "admin/resume").status_code == 303
    assert world.storage.switches.drained_since() is None
    assert last_changes(world.storage)[:2] == [
        ("root", "resume", "console", "127.0.0.1"),
        ("root", "drain", "console", "127.0.0.1"),
    ]


def test_the_owner_signs_out(world: World, owner: Browser):
    kept = dict(owner.cookies)
    assert owner.send("/admin", "admin/sign-out").status_code == 303
    assert OWNER not in owner.cookies
    assert Browser(world, kept).get("/admin").status_code == 403
    assert last_changes(world.storage)[0][:3] == ("root", "endConsoleSession", "console")


def test_the_queue_says_why_each_job_waits(world: World, ada: Account, owner: Browser):
    pipeline = ada.pipeline()
    for _ in range(3):
        pipeline.build(pipeline_ir=steps("one"))
    shown = main_of(owner.get("/admin/queue"))
    assert "3 jobs wait for a VM" in shown
    assert re.findall(r'class="number">(\d)<', shown) == ["1", "2", "3"]
    assert "ada-example-org/demo/1</a> one" in shown
    assert "waiting for a VM" in shown
    assert main_of(owner.get("/admin/queue?from=2")).count("<li>") == 1


def test_the_owner_ends_a_vm(world: World, ada: Account, owner: Browser):
    job = ada.pipeline().build().job()
    job.assign(lease := str(uuid.uuid4()))
    assert "demo/1</a> " in main_of(owner.get("/admin/vms"))
    assert owner.send("/admin/vms", f"admin/vms/{lease}/end").status_code == 303
    assert "No VM is leased" in owner.get("/admin/vms").text
    assert last_changes(world.storage)[0] == ("root", "killVm", "ada-example-org/demo/1 only, console", "127.0.0.1")


def test_vms_are_chosen_by_state_and_paged(world: World, owner: Browser):
    leases = world.storage.leases
    for number in range(101):
        lease = leases.reserve_parked(str(uuid.uuid4()), "sandbox")
        if number:
            leases.parked(lease.id)
    first = main_of(owner.get("/admin/vms"))
    assert (first.count("<li>"), "1 to 100</span>" in first, "of 101" in first) == (100, False, True)
    assert main_of(owner.get("/admin/vms?from=100")).count("<li>") == 1
    assert main_of(owner.get("/admin/vms?state=creating")).count("<li>") == 1


def test_images_are_listed_and_an_unknown_one_refused(owner: Browser, world: World):
    world.storage.leases.reserve_unclaimed(str(uuid.uuid4()), "sandbox", "debian:12", Shape())
    shown = main_of(owner.get("/admin/images"))
    assert "<strong>debian:12</strong>" in shown
    assert "1 use</summary>" in shown
    fields = owner.fields("/admin/images", "admin/images/pull")
    for path, typed, why in (
        ("remove", {"name": "nothing:1"}, "no image &#34;nothing:1&#34;"),
        ("remove", {"name": "../../etc"}, "is not a valid image name"),
        ("pull", {"reference": "-h; rm"}, "is not a valid image reference"),
    ):
        answered = owner.post(f"/admin/images/{path}", {**fields, **typed})
        assert (answered.status_code, why in answered.text) == (409, True), answered.text


def test_the_owner_empties_a_cache(world: World, ada: Account, owner: Browser):
    job = ada.pipeline().build().job().stored
    world.storage.snapshots.add("disk", job.id, "sandbox")
    assert world.storage.cache.store(NewCacheEntry("name", 1, "k" * 40, "debian:12", "disk"))
    assert "ada-example-org/demo</a>" in main_of(owner.get("/admin/caches"))
    fields = owner.fields("/admin/caches", "admin/caches/clear")
    assert owner.post("/admin/caches/clear", fields).status_code == 303
    assert world.storage.cache.entries() == []


def test_the_disk_says_what_takes_how_much(owner: Browser):
    shown = main_of(owner.get("/admin/disk"))
    for part in ("Database", "Logs", "Artifacts", "Kept folders", "Images", " of "):
        assert part in shown


def test_the_owner_adds_users_and_closes_accounts(world: World, ada: Account, owner: Browser):
    added = owner.send("/admin/users", "admin/users/add", email="eve@example.org", name="Eve")
    key = re.search(r'class="secret">([^<]+)<', added.text)
    assert key is not None
    assert world.storage.tokens.caller(key[1]) is not None
    again = owner.send("/admin/users", "admin/users/add", email="eve@example.org", name="Eve")
    assert again.status_code == 409
    assert owner.send("/admin/users", "admin/users/add", email="no", name="Eve").status_code == 409
    assert main_of(owner.get("/admin/users?q=eve")).count("<strong>") == 1
    fields = {**owner.fields("/admin/users", "admin/users/add"), "email": ada.email}
    link = re.search(r"/login/recover#([^<]+)<", owner.post("/admin/users/link", fields).text)
    assert link is not None
    assert owner.post("/admin/users/remove", fields).status_code == 303
    assert world.storage.users.by_email(ada.email) is None


def test_the_audit_is_filtered_and_paged(world: World, owner: Browser):
    for number in range(101):
        world.storage.audit.write("ada@example.org", "createBuild", f"demo/{number}", "", organization="acme")
    shown = owner.get("/admin/audit?action=create*").text
    older = re.search(r'href="[^"]*audit\?(action=create%2A&amp;before=\d+)"', shown)
    assert older is not None
    assert "demo/100<" in shown
    assert "openConsoleSession" not in shown
    assert "demo/0<" in owner.get(f"/admin/audit?{older[1].replace('&amp;', '&')}").text


def test_the_doctor_examines_the_host(owner: Browser, world: World):
    assert "Examine the host" in owner.get("/admin/doctor").text
    shown = main_of(owner.get("/admin/doctor?run=1"))
    assert "is a state directory" in shown
    assert "<strong>database</strong>" in shown
    assert records.new_owner(world.storage, "new@example.org").organization.slug, "the storage is open as before"


def test_a_failure_of_the_service_is_shown(world: World, ada: Account, owner: Browser):
    job = ada.pipeline().build().job().stored
    lease = records.started(world.storage, job)
    records.finish(world.storage, job, lease, JobState.FAILED, error_code="vm_lost", error_message="it <is> gone")
    shown = main_of(owner.get("/admin"))
    assert "vm_lost: it &lt;is&gt; gone" in shown
