"""Folders that jobs keep for later builds: a row and a tar for each (engine.md, "Kept folders")."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

from storage.database.statements import Columns, Query, Slots, Write, insert_into, slot
from storage.files.kinds import KEPT_FOLDER, sync_folder, write_and_sync
from storage.models.builds import KeptFolderRow
from storage.records.builds import KeptFolder, NewKeptFolder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path

    from storage.database.connection import Database

_KEPT = Columns.of(KeptFolder, KeptFolderRow)
_NEW: Slots[NewKeptFolder] = Slots(NewKeptFolder, KeptFolderRow)


class KeptFolders:
    """The folders that jobs keep. Safe in any thread.

    A tar is written before its row and removed after it: one without a row is new, or left behind by a crash.
    """

    def __init__(self, database: Database, directory: Path) -> None:
        self._database = database
        self._directory = directory
        folders = KeptFolderRow.select(*_KEPT.selected)
        self._find = Query(
            database,
            lambda: folders.where(
                KeptFolderRow.organization_id == slot("organization_id"),
                KeptFolderRow.scope == slot("scope"),
                KeptFolderRow.branch == slot("branch"),
                KeptFolderRow.origin == slot("origin"),
            ),
            _KEPT,
        )
        self._all = Query(database, lambda: folders.order_by(KeptFolderRow.last_used_at, KeptFolderRow.id), _KEPT)
        self._insert = Write(database, lambda: insert_into(KeptFolderRow))
        this = KeptFolderRow.id == slot("id")
        self._use = Write(database, lambda: KeptFolderRow.update({KeptFolderRow.last_used_at: slot("now")}).where(this))
        self._delete = Write(database, lambda: KeptFolderRow.delete().where(this))

    def find(self, organization_id: int, scope: str, branch: str, origin: str) -> KeptFolder | None:
        """Return the folder of a branch; None if there is none, or its file is gone."""
        found = self._find.one(organization_id=organization_id, scope=scope, branch=branch, origin=origin)
        return found if found is not None and self.path(found).exists() else None

    def all(self) -> list[KeptFolder]:
        """Return every folder, the longest unused first."""
        return self._all.all()

    def path(self, folder: KeptFolder) -> Path:
        """Return the path of a folder's tar."""
        return self._directory / KEPT_FOLDER.name(folder.uuid)

    def write(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        """Write a tar; return its UUID and size. If writing or iterating fails, the file is removed."""
        uuid = str(uuid4())
        self._directory.mkdir(mode=0o700, exist_ok=True)
        path = self._directory / KEPT_FOLDER.name(uuid)
        try:
            with path.open("xb") as file:
                size = write_and_sync(file, chunks)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        sync_folder(self._directory)
        return uuid, size

    def keep(self, new: NewKeptFolder) -> None:
        """Record a written folder in place of the one before it, whose file is removed."""
        with self._database.write():
            before = self._find.one(
                organization_id=new.organization_id, scope=new.scope, branch=new.branch, origin=new.origin
            )
            if before is not None:
                self._delete.run(id=before.id)
            now = self._database.now()
            self._insert.run(**_NEW(new), created_at=now, last_used_at=now)
        if before is not None:
            self.path(before).unlink(missing_ok=True)

    def use(self, folder: KeptFolder) -> None:
        """Note that a job has got a folder."""
        with self._database.write():
            self._use.run(id=folder.id, now=self._database.now())

    def drop(self, folders: Iterable[KeptFolder]) -> None:
        """Remove folders; missing ones are ignored."""
        going = list(folders)
        with self._database.write():
            for each in going:
                self._delete.run(id=each.id)
        for each in going:
            self.path(each).unlink(missing_ok=True)

    def remove_orphans(self, before: datetime) -> None:
        """Remove the files that were written before an instant and have no row."""
        known = {self.path(each).name for each in self.all()}
        with suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            for entry in entries:
                if entry.name not in known and entry.stat(follow_symlinks=False).st_mtime < before.timestamp():
                    os.unlink(entry.path)  # noqa: PTH108 - an entry of a scan
