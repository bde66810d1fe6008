"""Triggers of pipelines: the events that they want."""

from __future__ import annotations

import re
import time

import harmont as hm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.ir import PullRequestEvent, PushEvent, decides, skips_builds, wants, why_skipped
from storage import glob_matches

NAMES = st.text("ab/*?.[", max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def as_regex(glob: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in glob)


@given(NAMES, NAMES)
def test_a_glob_matches_like_its_regular_expression(glob: str, name: str):
    assert glob_matches(glob, name) == (re.fullmatch(as_regex(glob), name, re.DOTALL) is not None)


def test_a_hostile_glob_takes_no_time():
    began = time.process_time()
    assert not glob_matches("*a" * 120 + "b", "a" * 255)
    assert time.process_time() - began < 1


@given(NAMES.filter(bool))
def test_a_branch_trigger_never_matches_a_tag(name: str):
    triggers = [hm.push(branch="*").to_dict()]
    assert wants(triggers, PushEvent(name))
    assert not wants(triggers, PushEvent(name, is_tag=True))


@given(NAMES, st.booleans())
def test_an_empty_list_never_matches(name: str, is_tag: bool):
    assert not wants([{"event": "push", "branches": [], "tags": []}], PushEvent(name, is_tag))
    assert not wants([{"event": "pull_request", "branches": [], "types": ["opened"]}], PullRequestEvent(name, "opened"))


def test_a_push_trigger_without_names_wants_every_push():
    assert wants([{"event": "push"}], PushEvent("main"))
    assert wants([{"event": "push"}], PushEvent("v1", is_tag=True))


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (PushEvent("main"), True),
        (PushEvent("release/1.0"), True),
        (PushEvent("release"), False),
        (PushEvent("v1.2", is_tag=True), True),
        (PushEvent("v1.2"), False),
        (PullRequestEvent("main", "opened"), True),
        (PullRequestEvent("main", "closed"), False),
        (PullRequestEvent("feature", "opened"), False),
    ],
)
def test_triggers_of_the_dsl(event: PushEvent | PullRequestEvent, wanted: bool):
    triggers = (hm.push(branch=["main", "release/*"]), hm.push(tag="v?.*"), hm.pull_request(branches="main"))
    assert wants([each.to_dict() for each in triggers], event) == wanted


@given(st.lists(JSON | st.fixed_dictionaries({"event": st.just("push"), "branches": JSON, "tags": JSON}), max_size=4))
def test_malformed_triggers_are_no_error(triggers: list[object]):
    assert wants(triggers, PushEvent("main")) in {True, False}
    assert wants(triggers, PullRequestEvent("main", "opened")) in {True, False}


@pytest.mark.parametrize(
    ("message", "skips"),
    [
        ("Fix typo [skip ci]", True),
        ("Fix typo\n\nOnly words.\n[CI Skip]\n", True),
        ("Fix [ skip ci ]", False),
        ("Skip CI for drafts", False),
        ("Add a page (#7)\n\n* Add a page\n\n* Fix a typo [skip ci]\n\nIts body.", False),
        ("Squashed commit of the following:\n\ncommit 1a2b\n\n    Fix a typo [skip ci]", False),
        ("* Fix a typo [skip ci]", True),
        ("Merge pull request #7 from a/b\n\nFix a typo [skip ci]", True),
        ("", False),
    ],
)
def test_a_commit_message_may_skip_builds(message: str, skips: bool):
    assert skips_builds(message) == skips


@pytest.mark.parametrize(
    ("types", "wanted"), [(None, True), (["synchronize"], True), (["edited"], True), (["opened", "closed"], False)]
)
def test_another_target_is_new_to_a_trigger_for_commits(types: list[str] | None, wanted: bool):
    trigger = {"event": "pull_request", "branches": ["main"]} | ({"types": types} if types else {})
    assert wants([trigger], PullRequestEvent("main", "retargeted")) is wanted
    assert not wants([trigger], PullRequestEvent("other", "retargeted"))


PUSHES = {"event": "push", "branches": ["main"]}
TAGS = {"event": "push", "tags": ["v*"]}
PULLS = {"event": "pull_request", "branches": ["main"]}
OPENED = PullRequestEvent("next", "opened")


@pytest.mark.parametrize(
    ("triggers", "event", "own_branch", "decided"),
    [
        ([PUSHES], PushEvent("topic"), None, True),
        ([PUSHES], PushEvent("v1", is_tag=True), None, False),
        ([PUSHES, PULLS], PushEvent("topic"), None, False),
        ([PULLS], PushEvent("topic"), None, False),
        ([TAGS], PushEvent("topic"), None, False),
        ([TAGS], OPENED, "topic", False),
        ([{"event": "schedule", "cron": "0 4 * * *"}, 3, None], OPENED, "topic", False),
        ([PULLS], OPENED, "topic", True),
        ([PULLS], PullRequestEvent("next", "closed"), "topic", False),
        ([PULLS], PullRequestEvent("next", "retargeted"), "topic", True),
        ([PUSHES], OPENED, "topic", True),
        ([PUSHES], OPENED, "main", False),
        ([PUSHES], OPENED, None, True),
        ([PUSHES, PULLS], OPENED, "main", True),
    ],
)
def test_an_event_decides_what_no_other_event_will(
    triggers: list[object], event: PushEvent | PullRequestEvent, own_branch: str | None, *, decided: bool
):
    """A push leaves its commit to pull requests, and these to the push, where that alone is built."""
    assert decides(triggers, event, own_branch) is decided


def test_why_a_pipeline_is_skipped_is_its_paths_or_the_event():
    by_paths = [{**PULLS, "paths": ["src"]}]
    assert why_skipped(by_paths, OPENED) == 'it has no trigger for a pull request to "next" that is opened'
    paths = "none of the changed files is among the paths of its triggers"
    assert why_skipped(by_paths, PullRequestEvent("main", "opened")) == paths


@given(JSON)
def test_any_trigger_is_read_for_what_it_decides(trigger: object):
    assert decides([trigger], OPENED) in {True, False}
