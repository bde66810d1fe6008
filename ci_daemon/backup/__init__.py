"""Backups: everything that survives the service, but the disks of VMs, in one file that is proved as it is taken.

The file is a gzipped tar whose last member, the manifest, has the SHA-256 of all others. It has the files that the
database names, by kinds that their writers declare (`storage.FileKind`). To prove it is to restore it, into nothing.
"""

from __future__ import annotations

from ci_daemon.backup.contents import strangers
from ci_daemon.backup.manifest import BackupError, Manifest
from ci_daemon.backup.proving import Proof
from ci_daemon.backup.restoring import Restored, restore
from ci_daemon.backup.taking import Backup, backup, backup_to

__all__ = ["Backup", "BackupError", "Manifest", "Proof", "Restored", "backup", "backup_to", "restore", "strangers"]
