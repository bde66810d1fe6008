"""A build's source archive: read on the host, laid in a VM by manifest (engine.md, "A job attempt", step 2)."""

from __future__ import annotations

from actors.vms.source.laying import lay
from actors.vms.source.reading import SourceError, describe

__all__ = ["SourceError", "describe", "lay"]
