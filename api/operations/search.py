"""Search in the caller's organizations."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import TYPE_CHECKING, Self

from api.openapi.operations import Parameter
from api.operations.operation import GET, Call, Query, operation
from api.operations.things import ThisUser  # noqa: TC001 - an operation reads the annotations
from storage import BuildState, immutable

if TYPE_CHECKING:
    from storage import Build, FoundPerson, FoundPipeline, SearchResults, Storage

MOST_FOUND = 20
_MOST_ORGANIZATIONS = 50
_TEXT = Parameter(
    "q",
    "Words that all have to be found; without any, nothing is. They are looked for in names of pipelines; in the"
    " message, branch and people of builds; a build's number; the beginning of its commit; a member's name or address."
    " Eight words and 200 characters count.",
    {"type": "string", "examples": ["parser main"]},
)


@immutable
class PipelineHit:
    """A pipeline that was found, by the slugs of its organization and its own."""

    org: str
    pipeline_slug: str
    name: str

    @classmethod
    def of(cls, found: FoundPipeline) -> Self:
        """Return the record of what was found."""
        return cls(found.org, found.slug, found.name)


@immutable
class BuildHit:
    """A build that was found; ``pipeline_slug`` is that of its pipeline."""

    org: str
    pipeline_slug: str
    number: int
    state: BuildState
    branch: str | None
    commit: str | None
    message: str | None
    created_at: datetime

    @classmethod
    def of(cls, build: Build) -> Self:
        """Return the record of what was found."""
        return cls(
            build.organization_slug,
            build.pipeline_slug,
            build.number,
            build.state,
            build.branch,
            build.commit,
            build.message,
            build.created_at,
        )


@immutable
class PersonHit:
    """A member of one of the caller's organizations who was found."""

    org: str
    name: str
    email: str

    @classmethod
    def of(cls, found: FoundPerson) -> Self:
        """Return the record of who was found."""
        return cls(found.org, found.name, found.email)


@immutable
class SearchResponse:
    """The results: at most 20 pipelines, 20 builds from the newest on, and 20 people."""

    pipelines: tuple[PipelineHit, ...]
    builds: tuple[BuildHit, ...]
    people: tuple[PersonHit, ...]


@operation("search", GET, "/api/v0/search", "The results.", parameters=(_TEXT,))
def search(call: Call, user: ThisUser, query: Query) -> SearchResponse:
    """Search the caller's organizations for pipelines, builds and people.

    Of builds whose words are in very many, the newest 500 are looked at.
    """
    text = query.given.get("q", "")
    found = found_by(call.storage, user.id, text)
    return SearchResponse(
        tuple(map(PipelineHit.of, found.pipelines)),
        tuple(map(BuildHit.of, found.builds)),
        tuple(map(PersonHit.of, found.people)),
    )


def found_by(storage: Storage, user_id: int, text: str) -> SearchResults:
    """Return what a user finds by a text."""
    organizations = storage.organizations.page(user_id, _MOST_ORGANIZATIONS, None).rows
    return storage.search.find([each.id for each in organizations], text, MOST_FOUND)
