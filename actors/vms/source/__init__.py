"""A build's source archive: checked on the host, unpacked in a VM by its manifest.

See engine.md, "A job attempt", step 2.
"""

from __future__ import annotations

from actors.vms.source.laying import lay
from actors.vms.source.reading import SourceError, describe

__all__ = ["SourceError", "describe", "lay"]
