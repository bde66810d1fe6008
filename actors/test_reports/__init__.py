"""Reports of tests among the artifacts of builds: what failed, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.test_reports.junit import (
        WORST_FIRST,
        CaseOutcome,
        NotReport,
        SourceFiles,
        TestCase,
        TestReport,
        read_report,
    )
    from actors.test_reports.results import (
        LARGEST_REPORT,
        NO_TESTS,
        FailedTest,
        ReadReports,
        TestResults,
        read_artifact,
        read_reports,
        source_files,
        test_results,
    )
    from actors.test_reports.selecting import PassRate, Selection, selection
else:
    __getattr__ = on_first_use(__name__)
