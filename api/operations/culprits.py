"""The searches for commits that broke jobs of default branches (wire-decisions.md, "Culprits")."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import Annotated, Self

from api.errors.catalog import ApiError
from api.operations.operation import GET, PUT, STARTERS, Call, Found, operation
from api.operations.things import BUILD, ThisBuild
from storage import CulpritSearch, CulpritState, CulpritTest, Storage, example, immutable

_CULPRIT = f"{BUILD}/culprit"
_COMMIT = "4f6d2a1c9b8e7d6c5b4a39281706f5e4d3c2b1a0"
_NOT_SEARCHED = ("culprit_not_searched",)


@immutable
class CulpritBuild:
    """A build of a search: ``passed`` tells what it said of its commit, null if that is not known."""

    number: int
    commit: str | None
    state: str = example("failed")
    passed: bool | None

    @classmethod
    def of(cls, test: CulpritTest) -> Self:
        """Return the record of a stored build of a search."""
        return cls(test.number, test.commit, test.state.value, test.passed)


@immutable
class CulpritSearchRecord:
    """The search for the commit that broke the job ``step_key`` of a build, and what came of it.

    The job passed last on ``good_commit``, in the build ``good_build``, and failed on ``bad_commit``. ``commits`` are
    those from the one to the other, ``rounds`` how often some of them were built. ``culprit`` is the commit that broke
    the job, or on which it is flaky. ``reason`` says what was found or is done, in a sentence.
    """

    step_key: str = example("test")
    state: CulpritState
    reason: str = example("the job failed on it twice, and passed twice on the one before")
    culprit: str | None = example(_COMMIT)
    subject: str | None = example("Mend the parser")
    author_name: str | None = example("Ada")
    good_commit: str = example("0a1b2c3d4e5f60718293a4b5c6d7e8f901234567")
    bad_commit: str = example("89abcdef0123456789abcdef0123456789abcdef")
    good_build: int = example(11)
    commits: int | None = example(32)
    rounds: int = example(4)
    cents: int = example(12)
    builds: tuple[CulpritBuild, ...]
    created_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, storage: Storage, search: CulpritSearch) -> Self:
        """Return the record of a stored search."""
        good = storage.builds.get(search.good_build_id)
        return cls(
            step_key=search.step_key,
            state=search.state,
            reason=search.reason,
            culprit=search.culprit,
            subject=search.subject,
            author_name=search.author_name,
            good_commit=search.good_commit,
            bad_commit=search.bad_commit,
            good_build=0 if good is None else good.number,
            commits=None if search.commits is None else len(search.commits),
            rounds=search.rounds,
            cents=storage.culprits.cents(search.id),
            builds=tuple(map(CulpritBuild.of, storage.culprits.tests(search.id))),
            created_at=search.created_at,
            ended_at=search.ended_at,
        )


def _search(call: Call, build: ThisBuild) -> CulpritSearch:
    search = call.storage.culprits.of_build(build.id)
    if search is None:
        raise ApiError("culprit_not_searched", f"nobody searches for what broke build {build.number}")
    return search


ThisSearch = Annotated[CulpritSearch, Found(_search, _NOT_SEARCHED)]
"""The search for what broke the build ``{number}``: for members, as it tells what it cost."""


@operation("getCulprit", GET, _CULPRIT, "The search.")
def get_culprit(call: Call, search: ThisSearch) -> CulpritSearchRecord:
    """Get the commit that broke a build of the default branch, or how the search for it goes."""
    return CulpritSearchRecord.of(call.storage, search)


@operation("stopCulpritSearch", PUT, f"{_CULPRIT}/stop", "The search, which has ended.", callers=STARTERS)
def stop_culprit_search(call: Call, search: ThisSearch) -> CulpritSearchRecord:
    """Stop the search for what broke a build, and cancel its builds; one that has ended stays unchanged."""
    from actors import EngineBusy  # noqa: PLC0415 - the engine takes long to import

    culprits = call.storage.culprits
    for build_id in culprits.end(search, CulpritState.CANCELED, f"{call.actor} stopped it") or ():
        with suppress(EngineBusy):  # the storage has recorded the cancel, so it is still carried out
            call.engine.cancel(build_id)
    return CulpritSearchRecord.of(call.storage, culprits.get(search.id) or search)
