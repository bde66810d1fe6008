"""The line of a build's commit in messages."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from actors.notifications.messages import subject_line
from storage import NewBuild, SystemClock
from tests.records import new_job, new_pipeline
from tests.state import new_storage


@pytest.mark.parametrize(
    ("commit", "message", "line"),
    [
        ("c0ffee" * 6 + "c0ff", "Mend it\n\nAt last.", "c0ffeec0ffee Mend it"),
        ("c0ffee" * 6 + "c0ff", None, "c0ffeec0ffee"),
        ("0" * 40, None, ""),
        ("0" * 40, "By hand", "By hand"),
    ],
)
def test_gits_null_commit_is_not_shown(tmp_path: Path, commit: str, message: str | None, line: str):
    new = NewBuild(branch="main", commit=commit, message=message)
    with closing(new_storage(tmp_path / "state", SystemClock())) as storage:
        build = storage.builds.create(new_pipeline(storage), new, (new_job("only"),))
    assert subject_line(build) == line
