from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms import ImageStore
from actors.vms.host import IdMap, run_mapped


@pytest.fixture
def folder(tmp_path: Path, idmap: IdMap) -> Iterator[Path]:
    """A store's folder in a home that the VMs' ids cannot enter."""
    tmp_path.chmod(0o700)
    yield tmp_path / "images"
    run_mapped(["rm", "-rf", "images"], idmap=idmap.with_caller(), cwd=tmp_path)


@pytest.fixture
def store(folder: Path, idmap: IdMap) -> ImageStore:
    return ImageStore(folder, idmap)
