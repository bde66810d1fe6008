"""A project without VMs at the end of a test, also of one that failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ci_daemon.local.projects import Project


@pytest.fixture
def project(tmp_path: Path, images_dir: Path) -> Iterator[Project]:
    tree = tmp_path / "shop"
    tree.mkdir()
    project = Project(tree, tmp_path / "cache", images_dir)
    yield project
    project.destroy_vms()
