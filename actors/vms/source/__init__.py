"""A build's source archive: checked on the host, unpacked in a VM by its manifest.

See engine.md, "The workspace".
"""

from __future__ import annotations

from actors.vms.source.archive import SourceError, write_manifest, write_manifest_confined
from actors.vms.source.workspace_update import update_workspace

__all__ = ["SourceError", "update_workspace", "write_manifest", "write_manifest_confined"]
