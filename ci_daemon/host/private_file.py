"""Files that only their owner may read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from storage.files import sync_folder


def write_private(file: Path, text: str) -> None:
    """Replace a file at once and on the disk; it belongs to whom the old one or the folder does."""
    owner = (file if file.exists() else file.parent).stat()
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            if os.geteuid() == 0:
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
            opened.write(text)
            opened.flush()
            os.fsync(descriptor)
        Path(name).replace(file)
        sync_folder(file.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
