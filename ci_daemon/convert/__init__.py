"""Conversion of other systems' files into YAML of the language.

`sources` reads files and `kinds` tells whose they are; `actors.ir.systems` says what they mean; `conversion` writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.convert.conversion import Conversion, converted
    from ci_daemon.convert.sources import Project
else:
    __getattr__ = on_first_use(__name__)
