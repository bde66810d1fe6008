"""Forks of the disks that jobs have left, with a VM each (engine.md, "Kept disks")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.forks.files import DiskFolder, FileRefused, ListFolder, TakeFile
    from actors.forks.forks import DiskGone, Fork, ForkBusy, Forks, is_guarded, kept_disk
    from actors.forks.patch import PatchRefused, parse_patch
    from actors.forks.previews import PreviewAsleep, PreviewFailed, PreviewGone, Previews
    from actors.forks.running import MAX_OUTPUT, ForkRun, ForkWork, RunFailed, RunOutcome, run
    from actors.forks.terminals import Look, Shown, TerminalGone, Terminals, TooManyTerminals
else:
    __getattr__ = on_first_use(__name__)
