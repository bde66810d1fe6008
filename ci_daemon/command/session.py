"""What one run of the command knows: its state directory, its configuration, and how to answer."""

from __future__ import annotations

import json
import os
import pwd
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from ci_daemon import config
from storage import Storage, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["DEFAULT_STATE_DIR", "Failure", "Session", "on_one_line", "pass_session"]

DEFAULT_STATE_DIR = Path("/var/lib/ci-daemon")
_UNIT = Path("/usr/local/lib/systemd/system/ci-daemon.service")
"""Serves the default state directory, where the service is installed."""

_WIDEST = 500


def on_one_line(value: object) -> str:
    """Return a value as a terminal shows it, which nothing that users name can make do anything else."""
    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case _:
            text = str(value)
    return "".join(character if character.isprintable() else " " for character in text)


class Failure(click.ClickException):
    """The command could not do it; the message is one sentence that says what to do."""


def _operator() -> str:
    """Return which user of the host calls; behind `sudo` the one who called that."""
    try:
        return os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


@dataclass(slots=True)
class Session:
    """One run of `ci-daemon`. Only `--json` changes it, wherever on the line that stands."""

    state_dir: Path = DEFAULT_STATE_DIR
    json: bool = False
    operator: str = field(default_factory=_operator)
    """Who runs the command, for the audit: found before root goes on as the service's user."""

    def config(self) -> config.Config:
        """Return the configuration. Raises ConfigError."""
        return config.load(self.state_dir, os.environ)

    @property
    def starting(self) -> str:
        """Return the command that starts the service, as it stands in a sentence."""
        installed = self.state_dir == DEFAULT_STATE_DIR and _UNIT.exists()
        return "`systemctl start ci-daemon`" if installed else "`ci-daemon serve`"

    @contextmanager
    def storage(self) -> Iterator[Storage]:
        """Open the state directory's storage. Raises StorageError."""
        storage = Storage.open(self.state_dir, SystemClock(), billing=self.config().billing)
        try:
            yield storage
        finally:
            storage.close()

    def answer(self, document: object, text: str) -> None:
        """Print the document where JSON is wanted, else the text."""
        click.echo(json.dumps(document, indent=2) if self.json else text)

    def table(self, documents: Sequence[Mapping[str, object]], columns: Sequence[str], empty: str) -> None:
        """Print documents as JSON, or these keys of each as a row; ``empty`` is said where there is none."""
        if self.json:
            click.echo(json.dumps(list(documents), indent=2))
        elif not documents:
            click.echo(empty)
        else:
            table = Table(box=None, pad_edge=False, header_style="bold")
            for column in columns:
                table.add_column(column.replace("_", " "), overflow="fold", no_wrap=column == columns[0])
            for document in documents:
                table.add_row(*(on_one_line(document[column]) for column in columns))
            # A row is one line for whoever reads the output with another program.
            width = None if sys.stdout.isatty() else _WIDEST
            Console(width=width, highlight=False, markup=False, emoji=False).print(table)


pass_session = click.make_pass_decorator(Session, ensure=True)
