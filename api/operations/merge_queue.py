"""The merge queues of repositories: what is to be merged, in which order, and what came of it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import TYPE_CHECKING, Annotated, Self

from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, POST, Call, Found, created, done, operation
from api.operations.things import REPOSITORY, ThisRepository
from storage import (
    MergeQueued,
    MergeQueueFull,
    MergeState,
    NewMerge,
    QueuedMerge,
    Role,
    Storage,
    described,
    example,
    immutable,
    showing,
)

if TYPE_CHECKING:
    from api.fields import RequiredText
    from storage import Repository, Uuid

_QUEUE = f"{REPOSITORY}/merge-queue"
_ENDED = 20


@immutable
class QueueEntry:
    """A branch or pull request in a merge queue, by its place: 1 lands next, and what has ended has none.

    ``merge_commit`` is the merge of ``head`` into ``base_commit`` that is built, on top of the entries before it; this
    commit itself lands. ``reason`` says why it waits or has ended. ``builds`` are of this merge.
    """

    uuid: Uuid
    place: int | None
    name: str = example("topic (#7)")
    pull_request: int | None = example(7)
    branch: str | None
    target: str | None
    head: str | None
    state: MergeState
    reason: str = example("its merge is built")
    base_commit: str | None
    merge_commit: str | None
    builds: tuple[str, ...] = example(["acme/acme-web-ci/3"])
    added_by: str = example("ada@example.org")
    added_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, storage: Storage, entry: QueuedMerge, place: int | None) -> Self:
        """Return the record of a stored entry."""
        builds = [] if entry.merge_commit is None else storage.merge_queues.builds(entry)
        return showing(cls, entry, place=place, builds=tuple(each.name for each in builds))


@immutable
class AddToMergeQueueRequest:
    """The body of ``POST …/merge-queue``: a pull request or a branch of the repository.

    Without ``target`` it is that of the pull request, or the default branch.
    """

    pull_request: int | None = described(
        "The number of the pull request.", default=None, word="NUMBER", bounds=(1, 2**31 - 1)
    )
    branch: RequiredText | None = described("The branch, if it is no pull request.", default=None, word="NAME")
    target: RequiredText | None = described("The branch to merge into.", default=None, word="BRANCH")
    head: RequiredText | None = described(
        "The whole name of the commit that it must be at.", default=None, word="COMMIT"
    )


QueueEntryList = Annotated[list[QueueEntry], "The entries in their order, then those that ended last."]


def _entry(call: Call, repository: ThisRepository, entry: str) -> QueuedMerge:
    found = call.storage.merge_queues.by_uuid(repository.id, entry)
    if found is None:
        raise ApiError.not_found("merge_queue_entry", entry)
    return found


ThisEntry = Annotated[QueuedMerge, Found(_entry, ("merge_queue_entry_not_found",))]
"""The entry ``{entry}`` of the merge queue of a repository."""


def listed(storage: Storage, repository: Repository) -> list[QueueEntry]:
    """Return the merge queue of a repository as one list."""
    places: dict[str | None, int] = {}
    shown = []
    for each in storage.merge_queues.of_repository(repository.id):
        places[each.target] = places.get(each.target, 0) + 1
        shown.append(QueueEntry.of(storage, each, places[each.target]))
    ended = storage.merge_queues.ended(repository.id, _ENDED)
    return [*shown, *(QueueEntry.of(storage, each, None) for each in ended)]


@operation("listMergeQueue", GET, _QUEUE, "The merge queue.")
def list_merge_queue(call: Call, repository: ThisRepository) -> QueueEntryList:
    """List what is to be merged into branches of a repository, and what ended last, with the reasons."""
    return listed(call.storage, repository)


@operation(
    "addToMergeQueue",
    POST,
    _QUEUE,
    created("The entry."),
    role=Role.ADMIN,
    errors=("already_in_merge_queue", "merge_queue_full"),
)
def add_to_merge_queue(call: Call, repository: ThisRepository, body: AddToMergeQueueRequest) -> QueueEntry:
    """Add a pull request or a branch at the end of the merge queue; needs the role admin.

    Its merge is built on top of those before it. When its builds have passed, and those before it have landed, the
    service pushes this merge to the target. Pull requests from forks are thrown out.
    """
    if (body.pull_request is None) == (body.branch is None):
        raise ApiError("invalid_body", "give pull_request or branch, one of them")
    new = NewMerge(
        body.pull_request, body.branch, body.target or (body.branch and repository.default_branch), body.head
    )
    try:
        made = call.storage.merge_queues.add(repository, new, call.actor)
    except MergeQueued as error:
        raise ApiError("already_in_merge_queue", str(error)) from None
    except MergeQueueFull as error:
        raise ApiError("merge_queue_full", str(error)) from None
    call.engine.deliveries_added()
    return next(each for each in listed(call.storage, repository) if each.uuid == made.uuid)


@operation("removeFromMergeQueue", DELETE, f"{_QUEUE}/{{entry}}", done("The entry is removed."), role=Role.ADMIN)
def remove_from_merge_queue(call: Call, entry: ThisEntry) -> None:
    """Remove an entry from the merge queue, and cancel its builds; needs the role admin.

    Those behind it are built again. One that has ended stays as it is.
    """
    from actors import EngineBusy  # noqa: PLC0415 - the engine takes long to import

    builds = [] if entry.merge_commit is None else call.storage.merge_queues.builds(entry)
    if call.storage.merge_queues.end(entry, MergeState.LEFT, f"{call.actor} removed it"):
        for each in builds:
            if not each.state.terminal:
                with suppress(EngineBusy):  # it is noted, and done late
                    call.engine.cancel(each.id)
        call.engine.deliveries_added()
