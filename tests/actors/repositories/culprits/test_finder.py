"""The culprit finder with a real git repository; the test decides how its builds end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors import JobSettings, PoolSettings
from actors.addresses import Address
from actors.messages import PollStorage
from actors.parts import Parts
from actors.repositories.culprit_finder import CulpritFinder
from actors.repositories.settings import RepositorySettings
from actors.settings import LiveSettings, MailSettings
from actors.supervision import spawn
from storage import (
    BuildEvent,
    BuildState,
    CulpritSearch,
    CulpritState,
    JobState,
    NewNotification,
    NotificationKind,
    Role,
)
from tests.actors.conftest import settings_with
from tests.actors.repositories.world import World
from tests.culprits import pushed
from tests.records import finish, new_job, started
from tests.state import run_sql
from tests.waiting import until

SMALL = RepositorySettings(culprit_cents=5, culprit_minutes=30)


def polled(address: Address[Any]) -> bool:
    """Let a finder look; False."""
    address.ask(PollStorage())
    return False


class Searching(World):
    """A repository of whose commits the last one failed, and one finder at a time."""

    def __init__(self, folder: Path, count: int, repositories: RepositorySettings = SMALL) -> None:
        super().__init__(folder, repositories)
        self.settings = replace(
            settings_with(PoolSettings(), JobSettings()),
            repositories=repositories,
            mail=MailSettings(host="mail.example.org"),
        )
        good = self.remote.git("rev-parse", "HEAD")
        self.commits = [self.remote.commit(f"Change {each}") for each in range(1, count + 1)]
        self.remote.push("main")
        pushed(self.storage, self.pipeline, good, JobState.PASSED)
        self.build = pushed(self.storage, self.pipeline, self.commits[-1], JobState.FAILED)
        search = self.storage.culprits.begin(self.build)
        assert search is not None
        self.search_id = search.id

    @contextmanager
    def finder(self) -> Iterator[Address[Any]]:
        parts = Parts(storage=self.storage, clock=self.clock, live_settings=LiveSettings(self.settings))
        address = spawn(CulpritFinder, parts, pushes=lambda: self.pushes)
        try:
            yield address
        finally:
            address.stop()

    @property
    def search(self) -> CulpritSearch:
        found = self.storage.culprits.get(self.search_id)
        assert found is not None
        return found

    def running(self) -> list[tuple[int, str]]:
        """Return the builds that run, each with its commit."""
        tests = self.storage.culprits.tests(self.search_id)
        return [(each.build_id, each.commit or "") for each in tests if not each.state.terminal]

    def end(self, build_id: int, *, passed: bool, seconds: int = 0) -> None:
        """Let a build of the search run for a while, and end."""
        assert self.storage.renders.plan(build_id, "{}", None, [new_job("test")], has_source=True)
        (job,) = self.storage.jobs.of_build(build_id)
        lease = started(self.storage, job)
        self.clock.advance(seconds)
        state = JobState.PASSED if passed else JobState.FAILED
        finish(self.storage, job, lease, state, exit_code=int(not passed))
        self.storage.builds.move(build_id, BuildState.SCHEDULED, BuildState.PASSED if passed else BuildState.FAILED)

    def play(self, address: Address[Any], passes: Callable[[str], bool], seconds: int = 0) -> CulpritSearch:
        """Let the builds of each round end, until the search has."""
        while True:
            address.ask(PollStorage())
            until(lambda: self.search.ended_at or self.running() or polled(address), "a round")
            if self.search.ended_at:
                return self.search
            for build_id, commit in self.running():
                self.end(build_id, passed=passes(commit), seconds=seconds)


def test_one_of_32_commits_is_named_in_four_rounds(tmp_path: Path):
    world = Searching(tmp_path, 32)
    good = set(world.commits[:19])
    begin = world.search.good_commit
    with world.finder() as address:
        search = world.play(address, lambda commit: commit in good or commit == begin)
    assert (search.state, search.culprit, search.subject) == (CulpritState.FOUND, world.commits[19], "Change 20")
    assert search.author_name == "Ann"
    assert search.rounds <= 4
    tests = world.storage.culprits.tests(search.id)
    assert len(tests) <= 4 * search.rounds
    renders = [world.storage.renders.get(each.build_id) for each in tests]
    assert [each.ref for each in renders if each] == [each.commit for each in tests]


def test_a_flaky_failure_is_told_in_one_round(tmp_path: Path):
    world = Searching(tmp_path, 32)
    with world.finder() as address:
        search = world.play(address, lambda _commit: True)
    assert (search.state, search.culprit, search.rounds) == (CulpritState.FLAKY, world.commits[-1], 1)


def test_a_budget_that_is_too_small_is_told_in_words(tmp_path: Path):
    world = Searching(tmp_path, 32)
    with world.finder() as address:
        search = world.play(address, lambda commit: commit == world.search.good_commit, seconds=60)
    assert search.state is CulpritState.STOPPED
    assert search.culprit is None
    assert search.reason.startswith("its budget of 5 cents is too small: 4 builds cost 8; it is one of ")
    assert search.reason.endswith(" commits")


def test_what_runs_for_too_many_cents_is_canceled(tmp_path: Path):
    world = Searching(tmp_path, 32)
    with world.finder() as address:
        address.ask(PollStorage())
        until(lambda: len(world.running()) == 4 or polled(address), "the first round")
        build_id, _ = world.running()[0]
        assert world.storage.renders.plan(build_id, "{}", None, [new_job("test")], has_source=True)
        started(world.storage, world.storage.jobs.of_build(build_id)[0])
        world.clock.advance(200)
        address.ask(PollStorage())
        until(lambda: world.search.ended_at, "the end of the search")
    assert world.search.reason.startswith("its budget of 5 cents is too small: 4 builds cost 8")
    assert {world.storage.builds.get(each).cancel_requested for each, _ in world.running()} == {True}  # type: ignore[union-attr]


def test_a_search_that_takes_too_long_is_stopped(tmp_path: Path):
    world = Searching(tmp_path, 4)
    world.clock.advance(31 * 60)
    with world.finder() as address:
        search = world.play(address, lambda _: True)
    assert (search.state, search.reason) == (CulpritState.STOPPED, "it took longer than 30 minutes")


def test_a_successor_goes_on_where_it_was(tmp_path: Path):
    world = Searching(tmp_path, 8)
    with world.finder() as address:
        until(lambda: len(world.running()) == 4 or polled(address), "the first round")
    before = world.running()
    world.end(before[0][0], passed=False)
    with world.finder() as address:
        address.ask(PollStorage())
        address.ask(PollStorage())
        assert world.running() == before[1:]
        search = world.play(address, lambda commit: commit == world.search.good_commit)
    assert (search.state, search.culprit) == (CulpritState.FOUND, world.commits[0])


def test_one_commit_alone_is_not_searched(tmp_path: Path):
    world = Searching(tmp_path, 1)
    with world.finder() as address:
        address.ask(PollStorage())
        until(lambda: world.storage.culprits.open() == [], "the end of the search")
    assert world.storage.culprits.of_build(world.build.id) is None


def test_history_that_was_rewritten_is_not_searched(tmp_path: Path):
    world = Searching(tmp_path, 3)
    run_sql(tmp_path / "state", "UPDATE culprit_searches SET good_commit = :commit", commit="0" * 40)
    with world.finder() as address:
        search = world.play(address, lambda _: True)
    assert search.state is CulpritState.UNCLEAR
    assert "is not among those before" in search.reason


@pytest.mark.parametrize("member", [True, False])
def test_the_author_gets_a_mail(tmp_path: Path, *, member: bool):
    world = Searching(tmp_path, 2)
    storage = world.storage
    storage.notifications.create(
        world.pipeline.id, NewNotification(NotificationKind.EMAIL, (BuildEvent.FIRST_FAILURE,))
    )
    if member:
        ann = storage.users.create("ann@example.org", "Ann")
        storage.organizations.add_member(world.repository.organization_id, ann.id, Role.MEMBER)
    with world.finder() as address:
        search = world.play(address, lambda commit: commit != world.commits[-1])
    assert search.culprit == world.commits[1]
    mail = storage.mail.next()
    assert (mail is not None) is member
    if mail is not None:
        letter = storage.mail.letter(mail)
        assert letter is not None
        assert f'{search.culprit[:12]} broke "test"' in letter.subject
        assert "Change 2" in letter.text
