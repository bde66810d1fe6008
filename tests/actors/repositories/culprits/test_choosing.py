"""The rounds of a search: how many it takes, and what it says of flaky jobs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.repositories.culprits.choosing import Verdict, left, next_step
from storage import CulpritState

Outcomes = dict[str, list[bool | None]]


def search(
    count: int, says: Callable[[int, int], bool | None], at_once: int = 4
) -> tuple[Verdict, list[tuple[str, ...]]]:
    """Search among so many commits.

    ``says`` tells how a build ends, by the place of its commit and the number of builds of that before.
    """
    commits = [str(place) for place in range(count + 1)]
    outcomes: Outcomes = {commits[0]: [True], commits[-1]: [False]}
    rounds: list[tuple[str, ...]] = []
    while True:
        step = next_step(commits, outcomes, at_once)
        if isinstance(step, Verdict):
            return step, rounds
        assert 0 < len(step) <= at_once
        assert len(set(step)) == len(step)
        rounds.append(step)
        for each in step:
            told = outcomes.setdefault(each, [])
            told.append(says(int(each), len(told)))
        assert len(rounds) < 30


@pytest.mark.parametrize(("count", "most"), [(2, 2), (3, 3), (8, 4), (32, 4), (200, 5), (2000, 7)])
def test_the_culprit_is_named_in_few_rounds(count: int, most: int):
    for culprit in {1, 2, count // 3 + 1, count // 2, count - 1, count} - {0}:
        verdict, rounds = search(count, lambda place, _, culprit=culprit: place < culprit)  # type: ignore[misc]
        assert (verdict.state, verdict.commit) == (CulpritState.FOUND, str(culprit))
        assert len(rounds) <= most


def test_what_is_named_failed_twice_and_its_parent_passed_twice():
    built: dict[int, list[bool]] = {0: [True], 32: [False]}

    def says(place: int, _before: int) -> bool:
        built.setdefault(place, []).append(place < 11)
        return place < 11

    verdict, _ = search(32, says)
    assert verdict.commit == "11"
    assert built[11] == [False] * len(built[11])
    assert min(len(built[10]), len(built[11]), len(built[0]), len(built[32])) >= 2


def test_a_job_that_passes_again_is_flaky():
    verdict, rounds = search(32, lambda _place, _before: True)
    assert (verdict.state, verdict.commit) == (CulpritState.FLAKY, "32")
    assert len(rounds) == 1


def test_a_probe_that_fails_once_is_not_named():
    verdict, _ = search(32, lambda place, before: place < 20 and (place != 10 or before > 0))
    assert (verdict.state, verdict.commit) == (CulpritState.FLAKY, "10")


def test_what_fails_on_the_good_commit_too_is_of_no_commit():
    verdict, _ = search(32, lambda _place, _before: False)
    assert verdict.state is CulpritState.UNCLEAR
    assert "or what it uses has changed" in verdict.reason
    assert verdict.commit is None


def test_commits_that_cannot_be_run_are_named_together():
    verdict, _ = search(8, lambda place, _: None if place in {3, 4} else place < 4)
    assert verdict.state is CulpritState.UNCLEAR
    assert verdict.reason == "it is 3 or 4 or 5: on some of them the job cannot be run"


def test_commits_that_can_never_be_run_again_end_it():
    verdict, rounds = search(8, lambda _place, _before: None)
    assert verdict.state is CulpritState.UNCLEAR
    assert len(rounds) < 6


def test_what_is_left_is_counted():
    commits = [str(place) for place in range(9)]
    assert left(commits, {"0": [True], "8": [False]}) == 8
    assert left(commits, {"0": [True], "3": [True], "6": [False], "8": [False]}) == 3
