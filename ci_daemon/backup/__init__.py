"""Backups: the whole state but VM disks in one file, verified while it is taken.

The file is a gzipped tar. Its last member, the manifest, has the SHA-256 of all others. It contains the files that the
database names, by the kinds that their writers declare (`storage.FileKind`). The verification is a restore that writes
only the database and the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.backup.contents import undeclared_files
    from ci_daemon.backup.manifest import BackupError, Manifest
    from ci_daemon.backup.restoring import RestoreResult, restore
    from ci_daemon.backup.taking import Backup, backup, backup_to
    from ci_daemon.backup.verification import Verification
else:
    __getattr__ = on_first_use(__name__)
