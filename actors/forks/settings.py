"""The configuration section of terminals."""

from __future__ import annotations

from storage import immutable, setting

_LONGEST = 4 * 3600


@immutable
class TerminalSettings:
    """Section ``[terminals]``: terminals on forks of jobs' disks, each with a VM.

    A look at one holds a thread, as one at a log does (``max_streams`` of ``[http]``).
    """

    idle_seconds: int = setting(
        1800,
        "The seconds after which a terminal ends in which nobody has typed; four hours at most.",
        at_least=10,
        at_most=_LONGEST,
        live=True,
    )
    most: int = setting(16, "The most terminals at once; 0 allows none.", at_least=0, live=True)
    most_per_organization: int = setting(8, "The most terminals at once of one organization.", at_least=0, live=True)
    most_per_user: int = setting(4, "The most terminals at once of one user.", at_least=0, live=True)

    @property
    def longest_seconds(self) -> int:
        """The most seconds that a terminal lasts."""
        return _LONGEST
