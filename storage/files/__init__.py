"""Files beside the database: logs, sources, artifacts, and their retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.facade import on_first_use

if TYPE_CHECKING:
    from storage.files.confinement import Bounds, Confinement, WorkFailed
    from storage.files.kinds import DATABASE, KEY, sync_file_system, sync_folder, write_and_sync
    from storage.files.manifests import (
        Difference,
        Entry,
        EntryKind,
        ManifestWriter,
        changed_entries,
        content_bytes,
        differences,
        entries_at,
        entries_below,
        new_manifest,
    )
    from storage.files.workspaces import Workspace
else:
    __getattr__ = on_first_use(__name__)
