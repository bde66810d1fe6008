from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import (
    NewBuild,
    SecretScope,
    SystemClock,
)
from tests.ci_daemon.backup.state import SOURCE, Host
from tests.records import assigned, new_job, new_pipeline
from tests.state import new_storage


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    directory = tmp_path / "old"
    storage = new_storage(directory, SystemClock())
    pipeline = new_pipeline(storage)
    new = NewBuild(branch="main", commit="c0", env={"A": "b"}, source_archive=SOURCE)
    build = storage.builds.create(pipeline, new, (new_job("only"),))
    job = storage.jobs.of_build(build.id)[0]
    storage.secrets.put(SecretScope(pipeline.organization_id), "TOKEN", "hush")
    lease = assigned(storage, job)
    assert storage.leases.active(lease.id)
    assert storage.leases.start(lease.id, job.id)
    storage.artifacts.store(build, job, [storage.artifacts.files.write(build.uuid, "report", [b"a report"])])
    (directory / "ci-daemon.toml").write_text("[pool]\nparked = 1\n")
    with storage.logs.writer(build.uuid, job.uuid, 1) as log:
        log.output(b"hello\n")
    yield Host(directory, storage, build, job)
    storage.close()
