"""The meaning of other systems' files as jobs of the language, with notes on what differs. Pure.

`located` reads a text, a module for each system says what it means (`model`), and `omissions` collects what is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.ir.systems.drone import convert_drone
    from actors.ir.systems.files import Translation, translated
    from actors.ir.systems.github import convert_github
    from actors.ir.systems.gitlab import convert_gitlab
    from actors.ir.systems.gitlab_merging import GLOBAL_KEYS
    from actors.ir.systems.jobs import unused
    from actors.ir.systems.located import EMPTY, MAX_BYTES, Located, NotReadable, read, read_all
    from actors.ir.systems.model import ConvertedPipeline
    from actors.ir.systems.omissions import Omission, Omissions
    from actors.ir.systems.places import FOLDERS, TOP, files_of_others, name_of
    from actors.ir.systems.sourcehut import convert_sourcehut
    from actors.ir.systems.woodpecker import convert_woodpecker
else:
    __getattr__ = on_first_use(__name__)
