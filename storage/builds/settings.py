"""The configuration section of the builds that have not ended, with its defaults."""

from __future__ import annotations

from storage.data_classes import immutable
from storage.settings import setting

_MAX_BUILDS = 100_000
_MAX_GB = 1_000_000


@immutable
class BuildSettings:
    """Section ``[builds]``: the builds that one organization may have that run or wait.

    With more, requests are refused (429 `too_many_builds`), schedules skip a time, and pushes and pull requests wait
    until builds have ended. Those of pull requests from forks may be half of them.
    """

    max_unfinished: int = setting(
        1000, "The most builds of an organization that have not ended.", at_least=1, at_most=_MAX_BUILDS
    )
    max_source_gb: float = setting(
        20.0, "The most GB of the source archives of these builds.", above=0, at_most=_MAX_GB
    )
