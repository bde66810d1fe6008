"""One run of the command: its state directory, its configuration, and its answers.

Modules are imported when they are used, because imports take most of a small command's time.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import json
import os
import pwd
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from ci_daemon.config import Config
    from storage import Storage

__all__ = ["DEFAULT_STATE_DIR", "Failure", "Session", "pass_session"]

DEFAULT_STATE_DIR = Path("/var/lib/ci-daemon")
T = TypeVar("T")

_UNIT = Path("/usr/local/lib/systemd/system/ci-daemon.service")
"""The unit of an installed service, which serves the default state directory."""


class Failure(click.ClickException):
    """The command failed; the message is one sentence that says what to do."""


def _operator() -> str:
    """Return the user of the host who runs the command; with `sudo`, the user who called it."""
    try:
        return os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def _origin() -> str:
    """Return the caller's user id, terminal, and SSH client's address if there is one."""
    terminal = next((os.ttyname(stream).removeprefix("/dev/") for stream in range(3) if os.isatty(stream)), None)
    client = os.environ.get("SSH_CONNECTION", "").partition(" ")[0]
    return ", ".join(part for part in (f"uid {os.getuid()}", terminal or "no terminal", client) if part)


@dataclass(slots=True)
class Session:
    """One run of `ci-daemon`: its general options, and its data for the audit."""

    state_dir: Path = DEFAULT_STATE_DIR
    json: bool = False
    operator: str = field(default_factory=_operator)
    """The user who runs the command, for the audit; taken before root becomes the service's user."""

    origin: str = field(default_factory=_origin)
    """The terminal or address of the operator, for the audit."""

    answered_row: str | None = None
    """The slug, or else the id, of the row that the answer is about."""

    organization: str | None = None
    """The slug of the changed organization, for the audit, if no argument names it."""

    audited: bool = False
    """True if the command wrote its own audit entry, or changed nothing."""

    unit: Path = _UNIT

    def config(self) -> Config:
        """Return the configuration. Raises ConfigError."""
        from ci_daemon.config import load

        return load(self.state_dir, os.environ)

    @property
    def start_command(self) -> str:
        """The command that starts the service, in backquotes for a sentence."""
        installed = self.state_dir == DEFAULT_STATE_DIR and self.unit.exists()
        return "`systemctl start ci-daemon`" if installed else "`ci-daemon serve`"

    @contextmanager
    def storage(self) -> Iterator[Storage]:
        """Open the storage, with the prices of the configuration. Raises StorageError and ConfigError."""
        from storage import Storage, SystemClock

        with closing(Storage.open(self.state_dir, SystemClock(), billing=self.config().billing)) as storage:
            yield storage

    @contextmanager
    def storage_without_billing(self) -> Iterator[Storage]:
        """Open the storage without the configuration and its prices, for commands that debit nothing.

        Raises StorageError.
        """
        from storage import Storage, SystemClock

        with closing(Storage.open(self.state_dir, SystemClock())) as storage:
            yield storage

    def answer(self, document: object, text: str) -> None:
        """Print the document with `--json`, else the text."""
        if isinstance(document, dict):
            row = document.get("slug") or document.get("id") or document.get("uuid")
            self.answered_row = row if isinstance(row, str) else None
        click.echo(json.dumps(document, indent=2) if self.json else text)

    def table(self, documents: Sequence[Mapping[str, object]], columns: Sequence[str], empty: str) -> None:
        """Print documents as JSON, or as a table with these keys as columns; ``empty`` if there is none."""
        if self.json:
            click.echo(json.dumps(list(documents), indent=2))
        elif not documents:
            click.echo(empty)
        else:
            from ci_daemon.terminal.tables import DocumentTable, print_renderable

            print_renderable(DocumentTable(documents, columns))

    def properties(self, document: Mapping[str, object]) -> None:
        """Print one document, a line for each key that has a value."""
        from ci_daemon.terminal.tables import print_renderable, property_table

        print_renderable(property_table(document))

    def watch_table(
        self, read: Callable[[], Sequence[Mapping[str, object]]], columns: Sequence[str], empty: str
    ) -> None:
        """Redraw a table every second."""

        def draw(documents: Sequence[Mapping[str, object]]) -> RenderableType:
            from ci_daemon.terminal.tables import DocumentTable

            return DocumentTable(documents, columns) if documents else empty

        self.watch(read, draw)

    def watch(self, read: Callable[[], T], draw: Callable[[T], RenderableType]) -> None:
        """Call ``read`` and draw its result every second until Ctrl-C; with `--json`, print a document a line."""
        from ci_daemon.terminal.live import redraw, repeat

        if self.json:
            repeat(lambda: click.echo(json.dumps(read())))
        else:
            redraw(lambda: draw(read()))


pass_session = click.make_pass_decorator(Session, ensure=True)
