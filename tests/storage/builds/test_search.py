"""Search: words, numbers and commits, in some organizations alone."""

from __future__ import annotations

import pytest

from storage import NewBuild, Pipeline, SearchResults, Storage
from storage.database.connection import Database
from tests import records
from tests.storage.work import counted_work


@pytest.fixture
def pipeline(storage: Storage) -> Pipeline:
    return records.new_pipeline(storage)


def build(storage: Storage, pipeline: Pipeline, message: str, branch: str = "main", commit: str = "c0ffee") -> int:
    user = storage.members.all(pipeline.organization_id)[0].user_id
    new = NewBuild(branch=branch, commit=commit, message=message, created_by=user)
    return storage.builds.create(pipeline, new, [records.new_job()]).number


def found(storage: Storage, pipeline: Pipeline, text: str) -> SearchResults:
    return storage.search.find([pipeline.organization_id], text, 20)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("parser", [2, 1]),
        ("PARS", [2, 1]),
        ("mend\0pars", [1]),
        ("\0", []),
        ("pars mend", []),
        ("mend pars", [1]),
        ("grosser", []),
        ("ecole", [2]),
        ("feature/login", [2]),
        ("login-page", [2]),
        ("#2", [2]),
        ("1", [1]),
        ("abcd", [2, 1]),
        ("abcd2", [2]),
        ("abc", []),
        ('"parser"', [2, 1]),
        ("* - (", []),
        ('NOT a"b', []),
        ("words:mend", []),
        ("o1", []),
        ("u1", []),
        ("", []),
    ],
)
def test_builds_are_found_newest_first(storage: Storage, pipeline: Pipeline, text: str, numbers: list[int]):
    build(storage, pipeline, "Mend the parser", commit="abcd1")
    build(storage, pipeline, "The parser of the école", branch="feature/login-page", commit="abcd2")
    assert [each.number for each in found(storage, pipeline, text).builds] == numbers


def test_nothing_of_other_organizations_is_found(storage: Storage, pipeline: Pipeline):
    other = records.new_pipeline(storage, "Other", "bob@example.org")
    build(storage, other, "Secret plan", commit="beef1")
    for text in ("secret", "1", "beef", "bob", "other", other.slug):
        results = found(storage, pipeline, text)
        assert not [each for each in results.builds if each.pipeline_id == other.id]
        assert (results.people, [each.slug for each in results.pipelines if each.id == other.id]) == ((), [])
    assert storage.search.find([], "secret", 20) == SearchResults()


def test_people_and_their_builds_are_found_by_name(storage: Storage, pipeline: Pipeline):
    number = build(storage, pipeline, "Begin")
    (member,) = storage.members.all(pipeline.organization_id)
    storage.users.rename(member.user_id, "Grace Hopper")
    results = found(storage, pipeline, "hopp")
    assert [each.email for each in results.people] == [member.email]
    assert [each.number for each in results.builds] == [number]
    assert [each.number for each in found(storage, pipeline, "grace begin").builds] == [number]


def test_pipelines_are_found_by_parts_of_their_names(storage: Storage, pipeline: Pipeline):
    build(storage, pipeline, "Begin")
    part = pipeline.name[1:4].upper()
    assert [each.id for each in found(storage, pipeline, part).pipelines] == [pipeline.id]
    assert [each.number for each in found(storage, pipeline, f"{part} #1").builds] == [1]
    assert found(storage, pipeline, "zzz #1").builds == ()


def test_a_search_reads_no_more_of_more_builds(storage: Storage, database: Database, pipeline: Pipeline):
    build(storage, pipeline, "Mend the parser", commit="abcd1")
    counts: dict[str, list[int]] = {}
    for _ in range(2):
        for _ in range(600):
            build(storage, pipeline, "Mend the parser", commit="abcd1")
        for text in ("parser", "pa", "mend the pars", "#7", "abcd"):
            with counted_work(database) as counted:
                found(storage, pipeline, text)
            counts.setdefault(text, []).append(counted[0])
    assert {text: each for text, each in counts.items() if each[1] > each[0] * 1.3 + 20} == {}


@pytest.mark.parametrize("text", ["mend " * 8 + "nothing", "mend" + " " * 196 + "nothing"])
def test_words_past_their_bounds_are_not_looked_for(storage: Storage, pipeline: Pipeline, text: str):
    build(storage, pipeline, "Mend the parser")
    assert [each.number for each in found(storage, pipeline, text).builds] == [1]
