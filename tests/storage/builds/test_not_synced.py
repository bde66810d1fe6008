from __future__ import annotations

import errno
import os

import pytest

from storage import DatabaseUnavailable, NewBuild, Storage
from tests.held_disk import HeldDisk
from tests.records import new_job, new_pipeline


def test_a_build_that_may_be_stored_keeps_its_archive(storage: Storage, monkeypatch: pytest.MonkeyPatch):
    """Its transaction is committed, and the disk did not say that it has it."""
    pipeline = new_pipeline(storage)
    HeldDisk(monkeypatch).failure = OSError(errno.EIO, os.strerror(errno.EIO))
    with pytest.raises(DatabaseUnavailable, match="check the disk"):
        storage.builds.create(pipeline, NewBuild("main", "c0ffee", source_archive=b"archive"), (new_job(),))
    build = storage.builds.by_number(pipeline.id, 1)
    assert build is not None
    assert storage.sources.path(build.uuid).read_bytes() == b"archive"
