"""The files that are made from the help.

`python -m ci_daemon.manual docs/commands.md` writes the reference; with a folder, what belongs in /usr/share.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from ci_daemon.command import root_command
from ci_daemon.command.support.catalog import HEADINGS, lines
from ci_daemon.command.support.exit_codes import MEANINGS
from ci_daemon.manual import CommandPage, completion_script, pages
from ci_daemon.manual.page import Edition, manual_page
from ci_daemon.manual.reference import reference
from ci_daemon.manual.shared_files import MANUAL_PAGE, SCRIPTS


def _headings() -> dict[str, list[str]]:
    return {heading: [*texts] for heading, texts in HEADINGS.items()}


def _edition() -> Edition:
    """Return the edition of this program; its day is that of the build, which a package fixes."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return Edition(version("ci-daemon"), datetime.fromtimestamp(seconds, UTC).date())


def _shared_files(known: list[CommandPage]) -> dict[str, str]:
    page = manual_page(known, _headings(), MEANINGS, _edition())
    scripts = {path: completion_script(shell, known) for shell, path in SCRIPTS.items()}
    return {MANUAL_PAGE: page, **scripts}


def main(target: Path) -> None:
    """Write the file or the files."""
    known = pages(root_command(), lines())
    if target.suffix == ".md":
        target.write_text(reference(known, _headings(), MEANINGS), encoding="utf-8")
        return
    for name, text in _shared_files(known).items():
        file = target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


main(Path(sys.argv[1]))
