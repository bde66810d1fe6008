"""Backups: the whole state but VM disks in one file, proved as it is taken.

The file is a gzipped tar. Its last member, the manifest, has the SHA-256 of all others. It contains the files that the
database names, by the kinds that their writers declare (`storage.FileKind`). The proof is a restore that writes only
the database and the key.
"""

from __future__ import annotations

from ci_daemon.backup.contents import strangers
from ci_daemon.backup.manifest import BackupError, Manifest
from ci_daemon.backup.proving import Proof
from ci_daemon.backup.restoring import Restored, restore
from ci_daemon.backup.taking import Backup, backup, backup_to

__all__ = ["Backup", "BackupError", "Manifest", "Proof", "Restored", "backup", "backup_to", "restore", "strangers"]
