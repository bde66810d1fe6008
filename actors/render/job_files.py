"""Files of jobs that pipelines take over from other repositories: who may, and where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FoundFiles: TypeAlias = "dict[str, dict[str, str]]"
"""By its name in pipelines the ``text`` of each file, or why it is ``refused``."""

_NOBODY = "only a service that the repositories are connected to has files of other repositories"
_OF_FORK = (
    "a pull request from a fork takes over jobs of other repositories once a member has approved its build: what they"
    " say may be private"
)


def refused(names: Sequence[str], why: str) -> FoundFiles:
    """Return that none of some files is there."""
    return {name: {"refused": why} for name in names}


def nowhere(names: Sequence[str]) -> FoundFiles:
    """Return that no other repository is known."""
    return refused(names, _NOBODY)


class JobFiles:
    """The files of jobs of the repositories that an organization has connected.

    Who composes the service says by what they are fetched; a command without repositories has none. Safe in any thread.
    """

    def __init__(self) -> None:
        self._fetch: Callable[[str, Sequence[str]], FoundFiles] | None = None

    def come_from(self, fetch: Callable[[str, Sequence[str]], FoundFiles]) -> None:
        """Let files come from a function of an organization's slug and their names."""
        self._fetch = fetch

    def find(self, organization: str, names: Sequence[str], *, strangers: bool) -> FoundFiles:
        """Return files for an organization's build; it blocks while they are fetched.

        It is of ``strangers`` if it is of a fork's commit that no member has approved.
        """
        if self._fetch is None:
            return nowhere(names)
        return refused(names, _OF_FORK) if strangers else self._fetch(organization, names)
