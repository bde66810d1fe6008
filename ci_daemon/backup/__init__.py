"""Backups: everything that survives the service, but the disks of VMs, in one file that proves itself when restored.

The file is a gzipped tar whose last member, the manifest, has the SHA-256 of all others.
"""

from __future__ import annotations

from ci_daemon.backup.manifest import BackupError, Manifest
from ci_daemon.backup.restoring import Proof, restore
from ci_daemon.backup.taking import backup, backup_to

__all__ = ["BackupError", "Manifest", "Proof", "backup", "backup_to", "restore"]
