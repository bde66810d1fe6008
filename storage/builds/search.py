"""Search in some organizations: pipelines by name, builds by number, commit and words, and people.

Words of builds are found by SQLite's index of words (FTS5), from the newest build on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import peewee

from storage.builds.build_rows import BUILD, existing_builds
from storage.data_classes import immutable
from storage.database.statements import Columns, Query, first, slot
from storage.models.accounts import MembershipRow, OrganizationRow, UserRow
from storage.models.builds import BuildRow
from storage.models.pipelines import PipelineRow
from storage.patterns import pattern
from storage.records.pipelines import FoundPerson, FoundPipeline

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from storage.database.connection import Database
    from storage.records.builds import Build

MOST_WORDS = 8
MOST_LETTERS = 200
_MOST_CANDIDATES = 500
_LEAST_COMMIT = 4
_LEAST_PREFIX = 2
_NUMBER = pattern(r"#?([1-9][0-9]{0,8})")
_COMMIT = pattern(rf"[0-9a-f]{{{_LEAST_COMMIT},40}}")
_LETTER = pattern(r"\w")
_PIPELINE = Columns(FoundPipeline, PipelineRow.id, OrganizationRow.slug, PipelineRow.slug, PipelineRow.name)
_PERSON = Columns(FoundPerson, UserRow.id, OrganizationRow.slug, UserRow.name, UserRow.email)


@immutable
class SearchResults:
    """The pipelines, builds and people that were found, builds from the newest on."""

    pipelines: tuple[FoundPipeline, ...] = ()
    builds: tuple[Build, ...] = ()
    people: tuple[FoundPerson, ...] = ()


def words_of(text: str) -> list[str]:
    """Return the words to search for: 8 at most, in lower case, each with a letter or digit.

    A NUL stands between words, as a text of SQLite would end there.
    """
    return [word for word in text[:MOST_LETTERS].replace("\0", " ").lower().split() if _LETTER.search(word)][
        :MOST_WORDS
    ]


def match_of(organizations: Iterable[int], words: Sequence[str], creators: Sequence[Collection[int]]) -> str:
    """Return the FTS5 expression of builds in organizations that have every word, or one of its creators.

    The last word may be the beginning of one. Whatever a word has is text and never an operator.
    """
    places = " OR ".join(f'"o{each}"' for each in organizations)
    wanted = [f"organization : ({places})"]
    for position, (word, people) in enumerate(zip(words, creators, strict=True)):
        quoted = '"' + word.replace('"', '""') + '"'
        begun = position == len(words) - 1 and len(word) >= _LEAST_PREFIX
        found = f"words : {quoted}{' *' if begun else ''}"
        tokens = " OR ".join(f'"u{each}"' for each in people)
        wanted.append(f"({found} OR creator : ({tokens}))" if tokens else f"({found})")
    return " AND ".join(wanted)


def index_words(database: Database, build_id: int) -> None:
    """Index the words of a build that was just inserted, in the caller's transaction."""
    database.execute(_INDEX, {"id": build_id})


class Search:
    """Search in organizations. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        wanted: Any = peewee.SQL("(SELECT value FROM json_each(:organizations))")
        text = peewee.fn.INSTR(
            peewee.fn.LOWER(PipelineRow.name + " " + PipelineRow.slug + " " + OrganizationRow.slug), slot("word")
        )
        self._pipelines = Query(
            database,
            lambda: (
                PipelineRow.select(*_PIPELINE.selected)
                .join(OrganizationRow)
                .where(PipelineRow.organization.in_(wanted), PipelineRow.deleted_at.is_null(), text > 0)
            ),
            _PIPELINE,
        )
        someone = peewee.fn.INSTR(peewee.fn.LOWER(UserRow.name + " " + UserRow.email), slot("word"))
        self._people = Query(
            database,
            lambda: (
                MembershipRow.select(*_PERSON.selected)
                .join(UserRow)
                .join_from(MembershipRow, OrganizationRow)
                .where(MembershipRow.organization.in_(wanted), UserRow.machine == 0, someone > 0)
            ),
            _PERSON,
        )
        ids = peewee.SQL("(SELECT value FROM json_each(:ids))")
        builds = existing_builds().order_by(BuildRow.id.desc()).limit(slot("limit"))
        self._builds = Query(
            database, lambda: builds.where(BuildRow.id.in_(ids), PipelineRow.organization.in_(wanted)), BUILD
        )
        self._numbered = Query(
            database,
            lambda: BuildRow.select(BuildRow.id).where(
                BuildRow.pipeline.in_(peewee.SQL("(SELECT value FROM json_each(:pipelines))")),
                BuildRow.number == slot("number"),
            ),
            first,
        )
        self._of_commit = Query(
            database,
            lambda: (
                BuildRow.select(BuildRow.id)
                .where(
                    BuildRow.commit.is_null(is_null=False),
                    BuildRow.commit >= slot("least"),
                    BuildRow.commit < slot("past"),
                )
                .limit(_MOST_CANDIDATES)
            ),
            first,
        )
        self._database = database

    def find(self, organization_ids: Sequence[int], text: str, limit: int) -> SearchResults:
        """Return at most ``limit`` pipelines, builds and people that have every word of a text."""
        words = words_of(text)
        if not words or not organization_ids:
            return SearchResults()
        organizations = json.dumps(list(organization_ids))
        people = [self._people.all(organizations=organizations, word=word) for word in words]
        everybody = {each.user_id for found in people for each in found}
        for found in people:
            everybody &= {each.user_id for each in found}
        match = match_of(organization_ids, words, [{each.user_id for each in found} for found in people])
        ids = self._exact(organizations, words) | set(self._matching(match))
        return SearchResults(
            tuple(self._named(organizations, words)[:limit]),
            tuple(self._builds.all(ids=json.dumps(list(ids)), organizations=organizations, limit=limit)),
            tuple(each for each in people[0] if each.user_id in everybody)[:limit],
        )

    def _named(self, organizations: str, words: Iterable[str]) -> list[FoundPipeline]:
        """Return the pipelines that have every word in their names; all of them for no words."""
        found = sorted(self._pipelines.all(organizations=organizations, word=""), key=lambda each: each.id)
        for word in words:
            ids = {each.id for each in self._pipelines.all(organizations=organizations, word=word)}
            found = [each for each in found if each.id in ids]
        return found

    def _exact(self, organizations: str, words: Sequence[str]) -> set[int]:
        """Return builds by one word that is their number or begins their commit; others name their pipeline."""
        found: set[int] = set()
        for word in words:
            others = [each for each in words if each != word]
            if (number := _NUMBER.fullmatch(word)) is not None:
                pipelines = json.dumps([each.id for each in self._named(organizations, others)])
                found.update(self._numbered.all(pipelines=pipelines, number=int(number[1])))
            if not others and _COMMIT.fullmatch(word):
                found.update(self._of_commit.all(least=word, past=f"{word}g"))
        return found

    def _matching(self, match: str) -> list[int]:
        rows = self._database.execute(_MATCHED, {"match": match, "limit": _MOST_CANDIDATES})
        return [int(row[0]) for row in rows]


_INDEX = """
INSERT INTO build_words (rowid, organization, creator, words)
SELECT id, organization, creator, words FROM build_texts WHERE id = :id
"""
_MATCHED = "SELECT rowid FROM build_words WHERE build_words MATCH :match ORDER BY rowid DESC LIMIT :limit"
