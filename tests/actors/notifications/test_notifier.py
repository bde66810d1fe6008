"""The notifier: ends become mails and deliveries once, and are sent until they arrive."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pykka
import pytest
from standardwebhooks.webhooks import Webhook

from actors import JobSettings, PoolSettings
from actors.addresses import Address
from actors.mail import Mails, MailSettings
from actors.messages import PollStorage
from actors.notifications import NotificationSettings, deliver_test, new_notification
from actors.notifications.announcing import Announcements
from actors.notifications.messages import slack_message
from actors.notifications.notifier import Notifier
from actors.parts import Parts
from actors.settings import LiveSettings
from actors.source_hosts import BuildPages
from actors.supervision import spawn
from storage import (
    Build,
    BuildEvent,
    BuildState,
    CulpritState,
    JobState,
    Letter,
    NewBuild,
    NewOrigin,
    NewPipeline,
    Notification,
    NotificationDelivery,
    NotificationKind,
    OriginEvent,
    Outcome,
    Role,
    Storage,
)
from tests.actors.conftest import settings_with
from tests.clock import ManualClock
from tests.culprits import broken, pushed
from tests.identity.local_server import Asked, LocalServer, Reply, local_server
from tests.records import new_job, new_owner
from tests.state import new_storage, run_sql
from tests.waiting import until

WEBHOOK, SLACK, EMAIL = NotificationKind.WEBHOOK, NotificationKind.SLACK, NotificationKind.EMAIL
FAILED, PASSED, CANCELED = BuildState.FAILED, BuildState.PASSED, BuildState.CANCELED


class World:
    """A storage with a pipeline, an endpoint, and one notifier at a time."""

    def __init__(self, storage: Storage, clock: ManualClock, server: LocalServer) -> None:
        self.storage, self.clock, self.server = storage, clock, server
        self.owner = new_owner(storage)
        self.pipeline = storage.pipelines.create(self.owner.organization.id, NewPipeline("web", "Web", "r", "main"))
        mail, notifications = MailSettings("mail.example.org"), NotificationSettings(networks=("127.0.0.0/8",))
        settings = settings_with(PoolSettings(), JobSettings())
        live = LiveSettings(replace(settings, mail=mail, notifications=notifications))
        self.parts = Parts(storage=storage, clock=clock, live_settings=live)
        self.secret = ""

    def add(self, kind: NotificationKind, path: str = "/hook", **choices: Any) -> Notification:
        url = None if kind is EMAIL else f"{self.server.url}{path}"
        new = new_notification(kind, choices.pop("events", None), url, **{"to_creator": kind is EMAIL, **choices})
        made, secret = self.storage.notifications.create(self.pipeline.id, new)
        self.secret = secret or self.secret
        return made

    def end(self, state: BuildState, origin: NewOrigin | None = None, **fields: Any) -> Build:
        """Add a build of one job that ended in a state, with a log."""
        new = NewBuild(**{"branch": "main", "commit": "c0ffee", "created_by": self.owner.user.id, **fields})
        build = self.storage.builds.create(self.pipeline, new, [new_job("test")])
        if origin is not None:
            self.storage.build_origins.record(build.id, origin, reports=False)
        (job,) = self.storage.jobs.of_build(build.id)
        with self.storage.logs.writer(build.uuid, job.uuid, 1) as log:
            log.output(b"<b>it & broke</b>\n")
        self.storage.jobs.move(job.id, JobState.SCHEDULED, JobState(state.value), Outcome(exit_code=3))
        self.clock.advance(1)
        self.storage.builds.move(build.id, BuildState.SCHEDULED, state)
        return build

    def announcements(self) -> Announcements:
        return Announcements(
            self.parts,
            mails=Mails(self.storage, "https://ci.example.org"),
            describe=lambda build: {"number": build.number, "state": build.state},
        )

    @contextmanager
    def notifier(self) -> Iterator[Address[Any]]:
        address = spawn(Notifier, self.parts, self.announcements)
        try:
            yield address
        finally:
            address.stop()

    def work_off(self) -> None:
        """Let a notifier work until nothing is due."""
        with self.notifier() as notifier:
            notifier.ask(PollStorage())
            until(lambda: not self.storage.ended_builds.untold(1), "every end is told")
            notifier.ask(PollStorage())
            until(lambda: self.storage.notification_deliveries.next(()) is None, "nothing is due")

    def log(self, notification: Notification) -> list[NotificationDelivery]:
        """Return a notification's deliveries, oldest first."""
        return list(reversed(self.storage.notification_deliveries.page(notification.id, 100, None).rows))

    def letters(self) -> list[Letter]:
        waiting = [each for each in self.storage.mail.listed(100) if each.kind == "build"]
        return [letter for each in waiting if (letter := self.storage.mail.letter(each)) is not None]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = ManualClock()
    storage = new_storage(tmp_path / "state", clock)
    with local_server() as server:
        server.answers["/hook"] = lambda _: Reply(b"ok")
        yield World(storage, clock, server)
    storage.close()
    assert pykka.ActorRegistry.get_all() == []


def verified(world: World, asked: Asked) -> Any:
    """Return the body of a request whose signature is right, whatever the clock of the test says."""
    timestamp = int(asked.headers["webhook-timestamp"])
    assert timestamp == int(world.clock.now().timestamp())
    signed = Webhook(world.secret).sign(asked.headers["webhook-id"], world.clock.now(), asked.body.decode())
    assert asked.headers["webhook-signature"].split(" ")[0] == signed
    return json.loads(asked.body)


def test_a_webhook_gets_each_end_signed(world: World):
    notification = world.add(WEBHOOK, events=["build.finished", "build.first_failure"])
    world.end(FAILED)
    world.work_off()
    first, second = (verified(world, asked) for asked in world.server.seen)
    assert (first["type"], second["type"]) == ("build.first_failure", "build.finished")
    assert first["data"] == {
        "organization": "ada-example-org",
        "pipeline": "web",
        "url": "http://ci.example.org/ada-example-org/pipelines/web/builds/1",
        "build": {"number": 1, "state": "failed"},
    }
    states = [(each.state, each.status, each.answer, each.attempts) for each in world.log(notification)]
    assert states == [("delivered", 200, "ok", 1)] * 2
    world.work_off()
    assert len(world.server.seen) == 2


def test_a_failed_delivery_is_sent_again_with_its_id(world: World):
    replies = iter([Reply(b"no", 500), Reply(b"", 302), Reply(b"yes")])
    world.server.answers["/hook"] = lambda _: next(replies)
    notification = world.add(WEBHOOK)
    world.end(PASSED)
    for _ in range(3):
        world.work_off()
        world.clock.advance(301)
    assert len({asked.headers["webhook-id"] for asked in world.server.seen}) == 1
    assert len({asked.headers["webhook-timestamp"] for asked in world.server.seen}) == 3
    (delivery,) = world.log(notification)
    assert (delivery.state, delivery.attempts, delivery.answer) == ("delivered", 3, "yes")


def test_a_rotated_secret_signs_beside_the_new_one(world: World):
    notification = world.add(WEBHOOK)
    old, new = world.secret, world.storage.notifications.rotate(notification.id)
    assert new is not None
    world.end(PASSED)
    world.work_off()
    (asked,) = world.server.seen
    at, body = world.clock.now(), asked.body.decode()
    signatures = [Webhook(each).sign(asked.headers["webhook-id"], at, body) for each in (new, old)]
    assert asked.headers["webhook-signature"] == " ".join(signatures)


def test_people_hear_of_a_failure_and_of_the_recovery(world: World):
    slack, email = (
        world.add(SLACK, events=["build.first_failure", "build.recovered", "build.finished"]),
        world.add(EMAIL),
    )
    for state in (PASSED, FAILED, CANCELED, FAILED, PASSED, PASSED):
        world.end(state)
    world.work_off()
    changes = [(each.event, each.build_number) for each in world.log(email)]
    assert changes == [("build.first_failure", 2), ("build.recovered", 5)]
    assert [each.event.removeprefix("build.") for each in world.log(slack)] == [
        "finished",
        "first_failure",
        "finished",
        "finished",
        "recovered",
        "finished",
    ]
    assert [letter.subject for letter in world.letters()] == [
        "ada-example-org/web has failed on main: build 2",
        "ada-example-org/web passes again on main: build 5",
    ]


def test_a_refused_request_breaks_no_branch(world: World):
    """Its end is told where every end is wanted, like that of a canceled build."""
    email, webhook = world.add(EMAIL), world.add(WEBHOOK, events=["build.finished", "build.first_failure"])
    world.end(PASSED)
    new = NewBuild("main", "c0ffee", created_by=world.owner.user.id)
    world.storage.builds.create_rejected(world.pipeline, new, "invalid_json", "why", refused=True)
    world.end(PASSED)
    world.end(FAILED)
    world.work_off()
    assert [(each.event, each.build_number) for each in world.log(email)] == [("build.first_failure", 4)]
    assert [each.build_number for each in world.log(webhook)] == [1, 2, 3, 4, 4]


def test_branches_are_told_apart(world: World):
    email = world.add(EMAIL)
    for branch in ("main", "other"):
        world.end(FAILED, branch=branch)
    world.work_off()
    assert [each.event for each in world.log(email)] == ["build.first_failure"] * 2


def test_a_mail_shows_the_failed_step_and_its_log_escaped(world: World):
    world.add(EMAIL)
    world.end(FAILED, message="Fix <script>\n\nthe rest", commit="0123456789abcdef")
    world.work_off()
    (letter,) = world.letters()
    for part in ("0123456789ab Fix <script>", "Step test: exit code 3", "    <b>it & broke</b>"):
        assert part in letter.text
    for part in ("Fix &lt;script&gt;", "&lt;b&gt;it &amp; broke&lt;/b&gt;"):
        assert part in letter.html
    assert "<script>" not in letter.html
    assert "the rest" not in letter.text
    assert "http://ci.example.org/ada-example-org/pipelines/web/builds/1" in letter.text


def test_nobody_is_mailed_who_may_not_be(world: World):
    """Each reason is in the log of deliveries."""
    email, off = world.add(EMAIL), world.add(EMAIL, to_creator=False)
    stranger = world.storage.users.create("stranger@example.org", "Stranger")
    world.end(FAILED, created_by=stranger.id)
    world.work_off()
    world.storage.mail_opt_outs.set(world.owner.user.email, out=True)
    world.end(PASSED)
    world.work_off()
    world.parts.live_settings.now = replace(world.parts.live_settings.now, mail=MailSettings())
    world.end(FAILED)
    world.work_off()
    assert world.letters() == []
    assert [(each.recipient, each.state, each.last_error) for each in world.log(email)] == [
        (
            "stranger@example.org",
            "skipped",
            "it is no member's address, and its domain is not in notifications.mail_domains",
        ),
        ("ada@example.org", "skipped", "its owner wants no mail about builds"),
        (None, "skipped", "the service has no mail server"),
    ]
    assert world.log(off)[0].last_error == "the build has no commit author, and to_creator is off"


def test_the_author_of_a_pushed_commit_is_told(world: World):
    """Not who created the build, and no author whose address is nobody's that the service knows."""
    repository = world.storage.repositories.connect(world.owner.organization.id, "/srv/git/web.git", "acme/web", 60)
    email = world.add(EMAIL, to_creator=False)
    bob = world.storage.users.create("bob@example.org", "Bob")
    world.storage.organizations.add_member(world.owner.organization.id, bob.id, Role.MEMBER)
    for address in ("Bob@example.org", "victim@elsewhere.example", None, "carl@corp.example"):
        world.end(FAILED, NewOrigin(repository.id, OriginEvent.PUSH, "refs/heads/main", author_email=address))
        world.end(PASSED, created_by=None)
    notifications = replace(world.parts.live_settings.now.notifications, mail_domains=("Corp.example",))
    world.parts.live_settings.now = replace(world.parts.live_settings.now, notifications=notifications)
    world.work_off()
    failures = [each for each in world.log(email) if each.event == "build.first_failure"]
    assert [(each.recipient, each.state) for each in failures] == [
        ("bob@example.org", "delivered"),
        ("victim@elsewhere.example", "skipped"),
        (None, "skipped"),
        ("carl@corp.example", "delivered"),
    ]


def test_pull_requests_from_forks_say_nothing_about_a_branch(world: World):
    email, webhook = world.add(EMAIL, events=["build.first_failure", "build.finished"]), world.add(WEBHOOK)
    world.end(FAILED, from_fork=True)
    world.end(FAILED)
    world.work_off()
    assert [(each.event, each.state, each.build_number) for each in world.log(email)] == [
        ("build.finished", "skipped", 1),
        ("build.first_failure", "delivered", 2),
    ]
    assert [each.build_number for each in world.log(webhook)] == [1, 2]


def test_mails_to_one_address_are_limited(world: World):
    email = world.add(EMAIL)
    for number in range(12):
        world.end(FAILED, branch=f"branch-{number}")
    world.work_off()
    assert len(world.letters()) == 10
    assert [each.state for each in world.log(email)] == ["delivered"] * 10 + ["skipped"] * 2


def test_slack_text_cannot_call_people_or_make_links(world: World):
    world.add(SLACK)
    world.end(FAILED, message="<!channel> @everyone <https://evil.example|click> & more")
    world.work_off()
    (asked,) = world.server.seen
    message = json.loads(asked.body)
    assert message["blocks"][0]["text"] == {"type": "mrkdwn", "text": message["text"]}
    title, commit, step = message["text"].split("\n")
    page = "http://ci.example.org/ada-example-org/pipelines/web/builds/1"
    assert title == f"*<{page}|ada-example-org/web has failed on main: build 1>*"
    assert commit == "c0ffee &lt;!channel&gt; @\u200beveryone &lt;https://evil.example|click&gt; &amp; more"
    assert step == "• test: exit code 3"
    assert "webhook-signature" not in {name.lower() for name in asked.headers}


def test_slack_links_to_the_pages_that_a_host_has(world: World):
    build = world.end(FAILED, message="Break <it>")

    def subject(pages: BuildPages) -> str:
        message = json.loads(slack_message(BuildEvent.FINISHED, build, "https://ci.example/1", (), pages))
        return str(message["text"].splitlines()[1])

    assert subject(BuildPages()) == "c0ffee Break &lt;it&gt;"
    pages = BuildPages(commit="https://git.example/c", branch="https://git.example/b")
    assert subject(pages) == "<https://git.example/c|c0ffee> Break &lt;it&gt; <https://git.example/b|main>"
    pages = replace(pages, number=7, pull_request="https://git.example/7")
    assert subject(pages).endswith(" <https://git.example/7|pull request 7>")


def test_a_mail_links_to_the_pages_that_a_host_has(world: World):
    world.add(EMAIL)
    repository = world.storage.repositories.connect(
        world.owner.organization.id, "https://git.example/a/b.git", "a/b", 60
    )
    run_sql(world.storage.directory, "UPDATE repositories SET provider = 'forgejo'")
    run_sql(world.storage.directory, "UPDATE pipelines SET repository = :url", url=repository.url)
    world.end(FAILED)
    world.work_off()
    (letter,) = world.letters()
    assert "Commit: https://git.example/a/b/commit/c0ffee" in letter.text
    assert 'href="https://git.example/a/b/src/branch/main"' in letter.html


def test_a_disabled_notification_is_told_nothing(world: World):
    notification = world.add(WEBHOOK)
    world.storage.notifications.update(notification.id, enabled=False)
    world.end(FAILED)
    world.work_off()
    assert (world.server.seen, world.log(notification)) == ([], [])


def test_a_slow_endpoint_does_not_hold_up_another(world: World):
    entered, leave = threading.Event(), threading.Event()

    def answer(_: Asked) -> Reply:
        entered.set()
        leave.wait(30)
        return Reply(b"")

    world.server.answers["/slow"] = answer
    world.add(WEBHOOK, "/slow")
    fast = world.add(WEBHOOK)
    world.end(PASSED)
    with world.notifier() as notifier:
        notifier.ask(PollStorage())
        assert entered.wait(30)
        until(lambda: [each.state for each in world.log(fast)] == ["delivered"], "the other one")
        leave.set()
        until(lambda: world.storage.notification_deliveries.next(()) is None, "both")


def test_a_delivery_that_is_sent_again_by_hand_keeps_its_id(world: World):
    notification = world.add(WEBHOOK)
    world.end(PASSED)
    world.work_off()
    (delivery,) = world.log(notification)
    world.storage.notification_deliveries.redeliver(delivery)
    world.work_off()
    first, second = world.server.seen
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == delivery.uuid
    assert first.body == second.body


def test_an_end_is_written_as_a_whole_or_not_at_all(world: World, monkeypatch: pytest.MonkeyPatch):
    """A crash between two deliveries of an end leaves neither of them, and the end untold."""
    first, second = world.add(WEBHOOK), world.add(WEBHOOK)
    world.end(PASSED)
    deliveries = world.storage.notification_deliveries
    add = deliveries.add

    def crash(notification_id: int, *rest: Any) -> NotificationDelivery:
        if notification_id == second.id:
            raise SystemExit
        return add(notification_id, *rest)

    monkeypatch.setattr(deliveries, "add", crash)
    (ended,) = world.storage.ended_builds.untold(1)
    with pytest.raises(SystemExit):
        world.announcements().announce(ended)
    assert world.log(first) == []
    assert world.storage.ended_builds.untold(1) == [ended]
    monkeypatch.undo()
    world.work_off()
    assert [len(world.log(each)) for each in (first, second)] == [1, 1]


def test_an_end_that_cannot_be_announced_does_not_block_others(world: World, monkeypatch: pytest.MonkeyPatch):
    notification = world.add(WEBHOOK)
    first = world.end(PASSED)
    world.end(PASSED)
    announce = Announcements.announce

    def failing(self: Announcements, ended: Any) -> None:
        if ended.build_id == first.id:
            raise ValueError("a bug")
        announce(self, ended)

    monkeypatch.setattr(Announcements, "announce", failing)
    world.work_off()
    assert [each.build_number for each in world.log(notification)] == [2]


def test_a_test_goes_the_way_of_a_delivery(world: World):
    notification = world.add(WEBHOOK)
    made = deliver_test(world.storage, notification, "acme", world.pipeline, world.clock.now())
    world.work_off()
    (asked,) = world.server.seen
    body = verified(world, asked)
    assert (body["type"], body["data"]) == ("notification.test", {"organization": "acme", "pipeline": "web"})
    (delivery,) = world.log(notification)
    assert (delivery.uuid, delivery.state, delivery.event) == (made.uuid, "delivered", "notification.test")


def test_the_end_of_a_build_that_broke_its_branch_is_searched(world: World):
    storage, pipeline = world.storage, world.pipeline
    storage.pipelines.update(pipeline.id, repository="https://x.org/acme/web.git", repo_name="acme/web")
    storage.repositories.connect(pipeline.organization_id, "https://x.org/acme/web.git", "acme/web", 60)
    pushed(storage, pipeline, "900d", JobState.PASSED)
    storage.pipelines.update(pipeline.id, find_culprits=False)
    pushed(storage, pipeline, "bad", JobState.FAILED)
    world.work_off()
    assert storage.culprits.open() == []

    storage.pipelines.update(pipeline.id, find_culprits=None)
    pushed(storage, pipeline, "mended", JobState.PASSED)
    worse = pushed(storage, pipeline, "worse", JobState.FAILED)
    world.work_off()
    (search,) = storage.culprits.open()
    assert (search.build_id, search.good_commit) == (worse.id, "mended")


def test_builds_of_searches_are_told_to_nobody(world: World):
    notification = world.add(WEBHOOK, events=["build.finished", "build.first_failure"])
    _, search = broken(world.storage, world.pipeline)
    world.work_off()
    before = len(world.log(notification))
    world.end(FAILED, culprit_search_id=search.id)
    world.work_off()
    assert len(world.log(notification)) == before


def test_a_build_that_passes_after_a_retry_ends_its_search(world: World):
    build, search = broken(world.storage, world.pipeline)
    world.work_off()
    run_sql(world.storage.directory, "UPDATE builds SET state = 'passed', told_at = NULL WHERE id = :id", id=build.id)
    world.work_off()
    ended = world.storage.culprits.get(search.id)
    assert ended is not None
    assert (ended.state, ended.culprit, ended.reason) == (CulpritState.FLAKY, "bad", "it passed when it was retried")
