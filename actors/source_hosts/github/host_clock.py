"""The clock of GitHub, from the moments that its answers name."""

from __future__ import annotations

from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from storage import Clock


class HostClock:
    """GitHub's time: this host's, which may be wrong, and how far GitHub's is ahead. Safe in any thread.

    GitHub dates tokens and limits by its own clock, and takes no token that this host dates by another.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead = timedelta()

    def now(self) -> datetime:
        """Return the time at GitHub."""
        return self._clock.now() + self.ahead

    def heard(self, date: str | None) -> None:
        """Take the ``Date`` of an answer that has just come."""
        try:
            self.ahead = parsedate_to_datetime(date or "") - self._clock.now()
        except (ValueError, TypeError, OverflowError):
            return
