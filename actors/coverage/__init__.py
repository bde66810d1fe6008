"""The coverage of builds, from reports among their artifacts, and its change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.coverage.build_coverage import (
        BuildCoverage,
        Compared,
        compared,
        coverage_in_words,
        percent_of,
        read_build,
        reports_of,
        target_build,
    )
    from actors.coverage.formats import FileCoverage, lines_of
else:
    __getattr__ = on_first_use(__name__)
