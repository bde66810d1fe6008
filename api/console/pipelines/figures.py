"""Figures of a pipeline's last builds: bars, the share that passed, the median time; pure."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from storage import BuildState, immutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage import PastBuild

BAR_HEIGHT = 28.0
_LEAST = 4.0
_JUDGED = {BuildState.PASSED, BuildState.FAILED}


@immutable
class BuildBar:
    """A build as a bar: its height is its duration, to the scale of the longest."""

    number: int
    state: BuildState
    height: float


@immutable
class Figures:
    """Bars from the oldest build to the newest. Without builds that passed or failed the figures are None."""

    bars: tuple[BuildBar, ...]
    passed_percent: int | None
    median_seconds: float | None
    last: PastBuild | None

    @property
    def spoken(self) -> str:
        """The bars in words."""
        count = {state: sum(bar.state is state for bar in self.bars) for state in BuildState}
        return ", ".join(f"{number} {state.value}" for state, number in count.items() if number) or "no builds"


def figures_of(builds: Sequence[PastBuild]) -> Figures:
    """Return the figures of builds, oldest first."""
    longest = max((build.seconds or 0.0 for build in builds), default=0.0) or 1.0
    judged = [build for build in builds if build.state in _JUDGED]
    passed = [build for build in judged if build.state is BuildState.PASSED]
    times = [build.seconds for build in passed if build.seconds is not None]
    return Figures(
        bars=tuple(
            BuildBar(build.number, build.state, max(_LEAST, (build.seconds or 0.0) / longest * BAR_HEIGHT))
            for build in builds
        ),
        passed_percent=round(100 * len(passed) / len(judged)) if judged else None,
        median_seconds=median(times) if times else None,
        last=builds[-1] if builds else None,
    )
