"""One run of the command: its state directory, its configuration, and its answers.

Modules are imported when they are used, because imports take most of a small command's time.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import json
import os
import pwd
import shlex
from contextlib import closing, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from actors import PreviewHosts
    from actors.source_hosts import RepositoryConnector
    from api.doors import Door, LocalDoor
    from api.operations import Service
    from ci_daemon.config import Config
    from ci_daemon.remote.connection import Connection
    from ci_daemon.remote.destination import Destination, Wish
    from storage import Storage

DEFAULT_STATE_DIR = Path("/var/lib/ci-daemon")
T = TypeVar("T")

_MAKING_SECONDS = 240.0
"""The time of an answer for which a VM is made, at most."""

_NOWHERE = (
    "no server is known here: sign in with `ci-daemon login URL`,"
    " or on the box give --state-dir DIR or run this with sudo"
)
_NO_BOX = (
    "`{command}` works only on the box, the host of the service, and no service is installed here: its owner runs the"
    " same command there; if you are on it, give the state directory with --state-dir DIR"
)
_NO_SERVER = "no server is known here: sign in with `ci-daemon login URL`, or set CI_DAEMON_URL and CI_DAEMON_TOKEN"

_UNIT_FOLDERS = ("/usr/local/lib/systemd/system", "/usr/lib/systemd/system")
"""The folders of the unit of an installed service: `ci-daemon install`'s, and the package's."""


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


def _unit() -> Path:
    """Return the unit of an installed service, which serves the default state directory; may be missing."""
    candidates = [Path(folder, "ci-daemon.service") for folder in _UNIT_FOLDERS]
    return next((each for each in candidates if each.exists()), candidates[0])


def become_owner(state_dir: Path) -> None:
    """Become the owner of a state directory, if root calls and the owner is another user.

    The service could not use VMs, images and logs of root's. Does nothing if the directory does not exist.
    """
    owner = _owner_to_become(state_dir)
    if owner is None:
        return
    os.initgroups(owner.pw_name, owner.pw_gid)
    os.setgid(owner.pw_gid)
    os.setuid(owner.pw_uid)
    os.environ.update(HOME=owner.pw_dir, USER=owner.pw_name, LOGNAME=owner.pw_name)
    os.environ.pop("XDG_RUNTIME_DIR", None)
    if not os.access(".", os.X_OK):
        os.chdir("/")


def as_owner(state_dir: Path, call: Callable[[], T]) -> T:
    """Call a function as that user and return its result; both must be picklable."""
    if _owner_to_become(state_dir) is None:
        return call()
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, get_context("fork"), initializer=become_owner, initargs=(state_dir,)) as other:
        return other.submit(call).result()


def _owner_to_become(state_dir: Path) -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    try:
        owner = pwd.getpwuid(state_dir.stat().st_uid)
    except (OSError, KeyError):
        return None
    return None if owner.pw_uid == 0 else owner


class Remembered:
    """A name on the command line that shells complete later."""

    __slots__ = ()

    @property
    def known_lines(self) -> tuple[str, ...]:
        """The lines by which a shell completes it."""
        raise NotImplementedError


@dataclass(slots=True)
class Session:
    """One run of `ci-daemon`: its general options, and its data for the audit."""

    state_dir: Path = DEFAULT_STATE_DIR
    state_dir_given: bool = False
    """True if the caller named the state directory, and so the box."""

    context_name: str | None = None
    """The context that the caller named, and so a server."""

    json: bool = False
    quiet: bool = False
    operator: str = field(default_factory=_operator)
    """The user who runs the command, for the audit; taken before root becomes the service's user."""

    origin: str = field(default_factory=_origin)
    """The terminal or address of the operator, for the audit."""

    answered_row: str | None = None
    """The slug, or else the id, of the row that the answer is about."""

    caller: int = field(default_factory=os.geteuid)
    """The user id before root becomes the service's user, who has no shell to complete names in."""

    audited: bool = False
    """True if the command wrote its own audit entry, or changed nothing."""

    unit: Path = field(default_factory=_unit)
    _destination: Destination | None = None

    def config(self) -> Config:
        """Return the configuration. Raises ConfigError."""
        from ci_daemon.config import load

        return load(self.state_dir, os.environ)

    def service_url(self) -> str:
        """Return the address of this state directory's service: where it answers now, else the configured one.

        They differ while the service runs by `serve --listen`, or by an older configuration. Raises ConfigError.
        """
        from ci_daemon.host.lock import served_by

        server = served_by(self.state_dir)
        return (server and server.url) or self.config().http.url

    @property
    def program(self) -> str:
        """The command with which a further one finds the same state directory."""
        at = "" if self.state_dir == DEFAULT_STATE_DIR else f" --state-dir {shlex.quote(str(self.state_dir))}"
        return f"ci-daemon{at}"

    def service_start(self) -> str | None:
        """Return the command that starts the service, in backquotes; None if it runs, as a server does."""
        from ci_daemon.host.lock import served_by

        if self.server() is not None or served_by(self.state_dir) is not None:
            return None
        return self.start_command

    def pages_url(self) -> str:
        """Return the address of the service's pages, without a trailing slash. Raises ConfigError."""
        from api import pages_url

        server = self.server()
        return self.config().http.pages_url if server is None else pages_url(server.url)

    @property
    def start_command(self) -> str:
        """The command that starts the service, in backquotes for a sentence."""
        installed = self.state_dir == DEFAULT_STATE_DIR and self.unit.exists()
        return "`systemctl start ci-daemon`" if installed else "`ci-daemon serve`"

    def server(self) -> Destination | None:
        """Return the server that a command speaks to which both have; None on the box.

        The caller may name either. Else it is the box if the state directory is the caller's own, and else the current
        context's server. Raises Failure if there is neither, and ContextsUnusable.
        """
        if self.state_dir_given:
            return None
        wish = self._wish()
        if not wish.names_a_server and self.owns_state_dir():
            return None
        found = self._find_destination(wish)
        if found is None:
            raise Failure(_NOWHERE)
        return found

    def signed_in(self, url: str | None = None, token: str | None = None) -> Destination:
        """Return the server of a command that only servers have.

        ``url`` and ``token`` are options, which stand above the variables. Raises Failure and ContextsUnusable.
        """
        wish = self._wish()
        found = self._find_destination(replace(wish, url=url or wish.url, token=token or wish.token))
        if found is None:
            raise Failure(_NO_SERVER)
        return found

    @contextmanager
    def door(self) -> Iterator[Door]:
        """Open the way to the operations of a command that the box and a server both have.

        On the box the door writes the audit. Raises Failure, ContextsUnusable and StorageError.
        """
        if self.server() is not None:
            with self.connection() as connection:
                yield connection
            return
        with self.owners_door() as door:
            yield door

    @contextmanager
    def owners_door(self) -> Iterator[LocalDoor]:
        """Open the owner's way to the operations, on the box. Raises Failure and StorageError."""
        with self.storage_without_billing() as storage:
            yield self._local(self._service(storage))

    @contextmanager
    def building_door(self) -> Iterator[Door]:
        """Open the way to the operations that begin builds; on the box, with its prices and limits of builds.

        Raises Failure, ContextsUnusable, StorageError and ConfigError.
        """
        if self.server() is not None:
            with self.connection() as connection:
                yield connection
            return
        from api.doors import creation_elsewhere

        with self.storage() as storage:
            service = self._service(storage)
            yield self._local(replace(service, creation=creation_elsewhere(service, self.config().ir)))

    @contextmanager
    def mailing_door(self) -> Iterator[LocalDoor]:
        """Open the owner's way to operations that write mails, if the configuration names a mail server.

        Raises Failure, StorageError and ConfigError.
        """
        from actors.mail import Mails

        config = self.config()
        with self.storage_without_billing() as storage:
            url = config.http.url
            mails = Mails(storage, url, config.http.front_end(url)) if config.mail.host else None
            yield self._local(replace(self._service(storage), mails=mails))

    @contextmanager
    def repositories_door(self) -> Iterator[Door]:
        """Open the way to operations that ask the servers of repositories, or tell them where the service is.

        Raises Failure, ContextsUnusable, StorageError and ConfigError.
        """
        if self.server() is not None:
            with self.connection() as connection:
                yield connection
            return
        with self.owners_repositories_door() as door:
            yield door

    @contextmanager
    def owners_repositories_door(self) -> Iterator[LocalDoor]:
        """Open the owner's way to them, on the box. Raises Failure, StorageError and ConfigError."""
        from api.operations import repositories

        config, url = self.config(), self.service_url()
        with self.storage_without_billing() as storage:
            service = self._service(storage)

            def connector() -> RepositoryConnector:
                from ci_daemon.source_hosts import SourceHosts

                return SourceHosts(storage, config, service.clock, url).connector()

            yield self._local(replace(service, url=url, connecting=repositories.Connecting(connector)))

    @contextmanager
    def priced_door(self) -> Iterator[LocalDoor]:
        """Open the owner's way to operations that debit VMs or show what they cost.

        Raises Failure, StorageError and ConfigError.
        """
        with self.storage() as storage:
            yield self._local(self._service(storage))

    @contextmanager
    def forking_door(self) -> Iterator[Door]:
        """Open the way to operations that make VMs; on the box, with its prices.

        Raises Failure, ContextsUnusable, StorageError and ConfigError.
        """
        with self.priced_door() if self.server() is None else self.connection(seconds=_MAKING_SECONDS) as door:
            yield door

    @contextmanager
    def previews_door(self) -> Iterator[Door]:
        """Open the way to previews; on the box, with their prices and addresses.

        Raises Failure, ContextsUnusable, StorageError and ConfigError.
        """
        if self.server() is not None:
            with self.connection() as connection:
                yield connection
            return
        from actors import PreviewHosts

        hosts = PreviewHosts.of(self.config().previews, self.service_url())
        with self.storage() as storage:
            yield self._local(self._service(storage, hosts))

    def _service(self, storage: Storage, preview_hosts: PreviewHosts | None = None) -> Service:
        from api.doors import service_elsewhere
        from ci_daemon.box import OwnersBox
        from storage import SystemClock

        clock = SystemClock()
        return replace(
            service_elsewhere(storage, clock, preview_hosts),
            box=OwnersBox.of_command(self.state_dir, storage, clock),
        )

    def _local(self, service: Service) -> LocalDoor:
        """Return the owner's way to the operations, which writes the audit."""
        from api.doors import LocalDoor

        self.audited = True
        return LocalDoor(service, self.operator, self.origin)

    @contextmanager
    def connection(self, seconds: float = 30.0) -> Iterator[Connection]:
        """Connect to the server of a command that only servers have, for answers within so many seconds.

        Raises Failure and ContextsUnusable.
        """
        from ci_daemon.remote.connection import Connection

        server = self.signed_in()
        with closing(Connection(server.url, server.token, seconds=seconds)) as connection:
            yield connection

    def _wish(self) -> Wish:
        from ci_daemon.remote.destination import Wish

        return Wish.of(os.environ, self.context_name)

    def _find_destination(self, wish: Wish) -> Destination | None:
        """Find the server once: a keyring may be slow, and ask the person."""
        from ci_daemon.remote.contexts import configuration_folder
        from ci_daemon.remote.destination import find_destination

        if self._destination is None:
            self._destination = find_destination(wish, configuration_folder(os.environ))
        return self._destination

    def owns_box(self) -> bool:
        """Tell whether the caller named the state directory, or may use the one that is there."""
        return self.state_dir_given or self.owns_state_dir()

    def owns_state_dir(self) -> bool:
        """Tell whether the caller may use the state directory that is there."""
        try:
            return os.geteuid() in {0, self.state_dir.stat().st_uid}
        except OSError:
            return False

    @contextmanager
    def storage(self) -> Iterator[Storage]:
        """Open the storage, with what the configuration says of prices and of builds.

        Raises Failure, StorageError and ConfigError.
        """
        from storage import Storage, SystemClock

        self._check_box()
        config, clock = self.config(), SystemClock()
        strict = config.jobs.strict_shell
        with closing(
            Storage.open(self.state_dir, clock, billing=config.billing, bounds=config.builds, strict_shell=strict)
        ) as storage:
            yield storage

    @contextmanager
    def storage_without_billing(self) -> Iterator[Storage]:
        """Open the storage without the configuration and its prices, for commands that debit nothing.

        Raises Failure and StorageError.
        """
        from storage import Storage, SystemClock

        self._check_box()
        with closing(Storage.open(self.state_dir, SystemClock())) as storage:
            yield storage

    def _check_box(self) -> None:
        """Raise Failure if nobody named a state directory and there is no service's own."""
        if not self.state_dir_given and not self.state_dir.exists():
            raise Failure(_NO_BOX.format(command=click.get_current_context().command_path))

    @contextmanager
    def output(self) -> Iterator[None]:
        """Drop what is printed to stdout meanwhile if only errors are wanted."""
        if not self.quiet or self.json:
            yield
            return
        with Path(os.devnull).open("w", encoding="utf-8") as nothing, redirect_stdout(nothing):
            yield

    def remember(self, lines: Iterable[str]) -> None:
        """Let the caller's shell complete names from now on, each by its line (`ci_daemon.local.known_names`)."""
        from ci_daemon.local.folders import CacheUnusable, LocalFolders
        from ci_daemon.local.known_names import remember

        if os.geteuid() == self.caller:
            with suppress(CacheUnusable):
                remember(LocalFolders.of_user(os.environ).names, lines)

    def answer(self, document: object, text: str) -> None:
        """Print the document with `--json`, else the text."""
        if isinstance(document, dict):
            row = document.get("slug") or document.get("id") or document.get("uuid")
            self.answered_row = row if isinstance(row, str) else None
        click.echo(json.dumps(document, indent=2) if self.json else text)

    def table(
        self,
        documents: Sequence[Mapping[str, object]],
        columns: Sequence[str],
        empty: str,
        optional: Sequence[str] = (),
    ) -> None:
        """Print documents as JSON, or as a table with these keys as columns; ``empty`` if there is none.

        The columns of ``optional`` are left out where the terminal is too narrow for them.
        """
        if self.json:
            click.echo(json.dumps(list(documents), indent=2))
        elif not documents:
            click.echo(empty)
        else:
            from ci_daemon.terminal.tables import DocumentTable, print_renderable

            print_renderable(DocumentTable(documents, columns, optional))

    def records(self, records: Iterable[object], columns: Sequence[str], empty: str) -> None:
        """Print all of some records, as `table` prints documents."""
        from storage import document_of

        self.table([document_of(each) for each in records], columns, empty)

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
