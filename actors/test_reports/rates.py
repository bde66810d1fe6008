"""Rates of tests that ran often: a share, and how sure it is. Pure."""

from __future__ import annotations

from math import sqrt

from storage import immutable

_Z = 1.959964
"""The standard normal's quantile of a two-sided 95 %."""


@immutable
class PassRate:
    """A share of runs that passed, and the interval of the true one with 95 % confidence."""

    passed: int
    runs: int
    low: float
    high: float

    @classmethod
    def of(cls, passed: int, failed: int) -> PassRate:
        """Return the rate, with Wilson's interval, which holds for few runs and near 0 and 1 as well."""
        runs = passed + failed
        if not runs:
            return cls(0, 0, 0.0, 1.0)
        share, z2 = passed / runs, _Z * _Z
        middle = (share + z2 / (2 * runs)) / (1 + z2 / runs)
        half = _Z / (1 + z2 / runs) * sqrt(share * (1 - share) / runs + z2 / (4 * runs * runs))
        return cls(passed, runs, max(0.0, middle - half), min(1.0, middle + half))

    @property
    def words(self) -> str:
        """The rate as a sentence without its end."""
        if not self.runs:
            return "no run told anything"
        low, high = f"{self.low:.0%}", f"{self.high:.0%}"
        if self.passed == self.runs:
            return f"passed all {self.runs}: with 95% confidence it fails in at most {1 - self.low:.0%} of runs"
        if not self.passed:
            return f"failed all {self.runs}: with 95% confidence it passes in at most {high} of runs"
        return f"passed {self.passed} of {self.runs}: with 95% confidence it passes in {low} to {high} of runs"
