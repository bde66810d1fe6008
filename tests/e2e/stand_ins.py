"""An image store whose images have the names that pipelines use, and the content of the default one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.registry import store_beside


@contextmanager
def stand_ins(images_dir: Path, folder: Path, names: Mapping[str, Mapping[str, Any]]) -> Iterator[Path]:
    """Make a store with the default image and, under these names, the same tree with other facts."""
    with store_beside(images_dir, folder) as store:
        default = store / "debian@12"
        facts = json.loads((default / "image.json").read_text())
        for name, others in names.items():
            ours = store / name.replace("/", "+").replace(":", "@")
            ours.mkdir()
            (ours / "tree").symlink_to((default / "tree").readlink())
            (ours / "image.json").write_text(json.dumps(facts | {"name": name, **others}))
        yield store
