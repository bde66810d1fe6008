"""Sources with pytest among their files, for VMs that have Python and no network."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping


def with_pytest(files: Mapping[str, str]) -> bytes:
    """Return a tree of these files and ``pytest.zip``, which ``PYTHONPATH`` is to name."""
    packed, made = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        packages = Path(pytest.__file__).parent.parent
        archive.write(packages / "py.py", "py.py")
        for name in ("_pytest", "iniconfig", "packaging", "pluggy", "pygments", "pytest"):
            for path in (packages / name).rglob("*.py"):
                archive.write(path, path.relative_to(packages))
    contents = {"pytest.zip": packed.getvalue(), **{name: text.encode() for name, text in files.items()}}
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return made.getvalue()
