"""Services beside a job's command: each a program with a root, processes and an output of its own.

A service is in the job's user namespace and network, below the job's limits, and has all other namespaces for itself.
Its init is PID 1 there: it starts the program, reaps what that leaves, and runs the commands that ask if it is ready.
It talks with the supervisor over a socket, in messages of a word and perhaps a number:

    to it        ``stop``, ``kill``, ``probe``
    from it      ``exited CODE`` of the program itself, ``probed CODE``, ``dead CODE`` once nothing of it runs

Readiness is the supervisor's to decide, whether the service watches or not (engine.md, "Services").
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import _socket
import os
import resource
import select
import stat

from .command import Output, uptime
from .kernel import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    close_all_but,
    execute,
    fork_into,
    keep_capabilities,
    restore_signals,
    set_dumpable,
    set_title,
)
from .roots import enter_service_root
from .shares import limit_of_job

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .namespaces import Namespaces


_KINDS = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP
_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 27, 29, 31)
"""Those of the job without sys_ptrace and sys_admin: what a container has elsewhere, except net_raw."""

_MESSAGE_BYTES = 64
_TAIL_BYTES = 4096
_LOOK_BYTES = 1 << 20
_FIRST_PAUSE, _MAX_PAUSE, _GROWTH = 0.005, 1.0, 1.2
"""The seconds between two looks whether a service is ready: they grow to a fifth of those so far."""

_PROBE_SECONDS = 10.0
_ADDRESSES = ((_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1"))
_OOM_SCORE = 1000
_NOT_STARTED = 127


class Service:
    """A service of a job: its disk, its output and, once it is started, its processes."""

    def __init__(self, name: str, disk: int, output: int) -> None:
        """``disk`` is a descriptor of the mount of its root, ``output`` one of the file for its output."""
        self.name = name
        self.output = Output(output)
        self.exit_code: int | None = None
        """The exit code of its program, once nothing of it runs and all of its output is kept."""

        self.stopped = False
        """True if it was asked to end before it ended."""

        self.ready = False
        self.failure = ""
        """The reason why it will not be ready, as a phrase."""

        self.fails_job = False
        self._disk = disk
        self._control: _socket.socket | None = None
        self._pipe = -1
        self._dead_code: int | None = None
        self._exited: int | None = None
        self._sign: dict[str, Any] = {}
        self._look_at = self._ready_by = 0.0
        self._pause = _FIRST_PAUSE
        self._probing_since: float | None = None
        self._looked = 0
        self._kill_at: float | None = None

    @property
    def failed_job(self) -> bool:
        """True if it ended by itself, and the command is to end with it."""
        return self.fails_job and not self.stopped and self._dead_code is not None

    @property
    def started(self) -> bool:
        """True once its program was started, or could not be."""
        return self._control is not None or bool(self.failure) or self.exit_code is not None

    @property
    def descriptors(self) -> list[int]:
        """The descriptors to poll for `attend`."""
        control = [] if self._control is None else [self._control.fileno()]
        return [each for each in (*control, self._pipe) if each >= 0]

    @property
    def due(self) -> float | None:
        """The time at which `attend` has something to do, in seconds since boot; None if at none."""
        times = [] if self._settled else [min(self._look_at, self._ready_by)]
        if self._kill_at is not None:
            times.append(self._kill_at)
        return min(times) if times else None

    @property
    def _settled(self) -> bool:
        return self.ready or bool(self.failure) or not self.started

    def start(
        self, spec: dict[str, Any], job: Namespaces, limits: list[tuple[int, int, int]], groups: list[int]
    ) -> None:
        """Start it, unless that was done. A failure is kept for who asks."""
        if self.started:
            return
        self.output.keep(spec["output_limit"] - spec["output_tail"], spec["output_tail"])
        self._sign, self.fails_job = spec["ready"], spec["fails_job"]
        now = uptime()
        self._look_at, self._ready_by = now, now + spec["ready_seconds"]
        pipe, output = os.pipe()
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        try:
            child = os.fork()
            if child == 0:
                _make(spec, self._disk, job, limits, groups, theirs, output)
            if os.waitpid(child, 0)[1]:
                self.failure = "its namespaces cannot be made"
        except OSError as error:
            self.failure = f"it cannot be started: {error}"
        finally:
            for each in (output, self._disk):
                os.close(each)
            theirs.close()
        os.set_blocking(pipe, False)
        ours.setblocking(False)  # noqa: FBT003 - the function's own argument
        self._pipe, self._control = pipe, ours

    def attend(self, ready: dict[int, int]) -> None:
        """Keep its output, hear its init, look if it is ready, and kill it, whatever is due."""
        if self._pipe in ready:
            self._keep_output()
        if self._control is not None and self._control.fileno() in ready:
            self._hear(self._control)
        now = uptime()
        if self._kill_at is not None and self._kill_at <= now:
            self._kill_at = None
            self._order(b"kill")
        if not self._settled and self._look_at <= now:
            self._look(now)
        if not self._settled and self._ready_by <= now:
            self.failure = f"it was not ready in time: {self._awaited}"

    def stop(self, grace: float) -> None:
        """Ask it to end, and let it be killed after ``grace`` seconds. Idempotent."""
        if self.started and not self.stopped and self.exit_code is None and self._dead_code is None:
            self.stopped = True
            self._kill_at = uptime() + grace
            self._order(b"stop")

    @property
    def result(self) -> bytes:
        """The lines that tell how it ended."""
        facts = [f"exit {self.exit_code}", f"output {self.output.kept} {self.output.size - self.output.kept}"]
        if self.stopped:
            facts.append("stopped")
        return "\n".join([*facts, ""]).encode()

    @property
    def last_output(self) -> bytes:
        """The end of its output, as far as that is its beginning."""
        size = min(self.output.size, self.output.head)
        return os.pread(self.output.file, _TAIL_BYTES, max(0, size - _TAIL_BYTES))

    @property
    def _awaited(self) -> str:
        match self._sign:
            case {"port": int(port)}:
                return f"nothing takes connections at its port {port}"
            case {"log": str(text)}:
                return f'its log has no "{text}"'
            case _:
                return "its command for that does not pass"

    def _keep_output(self) -> None:
        try:
            ended = self.output.move(self._pipe) == 0
        except BlockingIOError:
            return
        except OSError:  # such as that the host's disk is full: what comes now is lost, and the service goes on
            self.output.lose(self._pipe)
            return
        if ended:
            os.close(self._pipe)
            self._pipe = -1
            self._note_end()

    def _hear(self, control: _socket.socket) -> None:
        try:
            word, _, code = control.recv(_MESSAGE_BYTES).partition(b" ")
        except ConnectionError:
            word, code = b"", b""
        match word:
            case b"probed":
                self._probing_since = None
                if code == b"0" and not self._settled:
                    self.ready = True
            case b"exited":
                self._exited = int(code)
            case _:  # dead, or its init was killed, and so all of it
                self._dead_code = int(code) if word == b"dead" else self._exited if self._exited is not None else 137
                self._kill_at = None
                control.close()
                self._control = None
                if not self.ready and not self.failure:
                    self.failure = f"it ended with exit code {self._dead_code} before it was ready"
                self._note_end()

    def _note_end(self) -> None:
        """Note the end of a service of which nothing runs, and nothing more is printed."""
        if self._dead_code is not None and self._pipe < 0:
            self.exit_code = self._dead_code

    def _look(self, now: float) -> None:
        """Look if it is ready, or let its init look."""
        self._look_at = now + self._pause
        self._pause = min(_GROWTH * self._pause, _MAX_PAUSE)
        match self._sign:
            case {"port": int(port)}:
                self.ready = any(_takes_connections(family, address, port) for family, address in _ADDRESSES)
            case {"log": str(text)}:
                self.ready = self._has_printed(text.encode())
            case {"command": str()}:
                if self._probing_since is None or self._probing_since <= now - _PROBE_SECONDS:
                    self._probing_since = now
                    self._order(b"probe")
            case _:
                self.ready = True

    def _has_printed(self, text: bytes) -> bool:
        """Tell whether the output has a text, which may have come in parts."""
        size = min(self.output.size, self.output.head)
        while self._looked < size:
            start = max(0, self._looked - len(text))
            part = os.pread(self.output.file, min(_LOOK_BYTES, size - start), start)
            if text in part:
                return True
            self._looked = start + len(part)
        return False

    def _order(self, word: bytes) -> None:
        try:
            if self._control is not None:
                self._control.send(word)
        except OSError:  # it has ended
            return


def _takes_connections(family: int, address: str, port: int) -> bool:
    """Tell whether a port of the loopback is listened to, which the loopback tells at once."""
    try:
        client = _socket.socket(family, _socket.SOCK_STREAM)
    except OSError:  # no such addresses here
        return False
    try:
        client.settimeout(0.1)
        client.connect((address, port))
    except OSError:
        return False
    else:
        return True
    finally:
        client.close()


def _make(
    spec: dict[str, Any],
    disk: int,
    job: Namespaces,
    limits: list[tuple[int, int, int]],
    groups: list[int],
    control: _socket.socket,
    output: int,
) -> NoReturn:
    """Join the job's limits and users, and fork the init of the service into its namespaces."""
    status = 1
    try:
        for group in groups:
            os.write(group, b"0")
        job.become_root()
        if fork_into(_KINDS) == 0:
            _run_init(spec, disk, limits, control, output)
        status = 0
    except OSError as error:
        os.write(output, f"the service cannot be started: {error}\n".encode())
    finally:
        os._exit(status)


def _run_init(
    spec: dict[str, Any], disk: int, limits: list[tuple[int, int, int]], control: _socket.socket, output: int
) -> NoReturn:
    """Be PID 1 of a service."""
    status = _NOT_STARTED
    try:
        os.setsid()
        enter_service_root(disk, spec)
        null = os.open("/dev/null", os.O_RDWR)
        for number, descriptor in enumerate((null, output, output)):
            os.dup2(descriptor, number)
        os.closerange(3, control.fileno())
        os.closerange(control.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        for kind, soft, hard in limits:
            resource.setrlimit(kind, (soft, hard))
        most = limit_of_job()
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        os.umask(0o022)
        restore_signals()
        set_title(b"service")
        set_dumpable(dumpable=True)  # so that it may write this file
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(b"%d" % _OOM_SCORE)
        set_dumpable(dumpable=False)
        keep_capabilities(_CAPABILITIES)
        status = _Init(spec, control).serve()
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        os.write(2, f"the service cannot be started: {where}{error.strerror}\n".encode())
    finally:
        try:
            control.send(b"dead %d" % status)
        finally:
            os._exit(0)


class _Init:
    """PID 1 of a service, and the program that it runs."""

    def __init__(self, spec: dict[str, Any], control: _socket.socket) -> None:
        self._control = control
        self._user = _User(spec["user"])
        self._env: dict[str, str] = {"HOME": self._user.home, **spec["env"]}
        self._folder: str = spec["folder"]
        self._stop_signal: int = spec["stop_signal"]
        self._probe_argv = ["/bin/sh", "-c", spec["ready"].get("command", "")]
        self._probe: int | None = None
        self._code = 0
        self._wakes, wake = os.pipe()
        for each in (self._wakes, wake):
            os.set_blocking(each, False)
        _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        self._program: int | None = self._start(spec["argv"], quiet=False)
        close_all_but(control.fileno(), self._wakes, wake)  # also the output, whose end is that of all who hold it

    def serve(self) -> int:
        """Reap and obey until nothing runs; return the exit code of the program."""
        poll = select.poll()
        for each in (self._control.fileno(), self._wakes):
            poll.register(each, select.POLLIN)
        while True:
            for ready, _ in poll.poll():
                if ready == self._wakes:
                    os.read(self._wakes, 1 << 12)
                else:
                    self._obey(self._control.recv(_MESSAGE_BYTES))
            if not self._reap():
                return self._code

    def _reap(self) -> bool:
        """Note all that has ended; tell if anything runs."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            ended = os.waitstatus_to_exitcode(status)
            ended = ended if ended >= 0 else 128 - ended
            if pid == self._program:
                self._program, self._code = None, ended
                self._control.send(b"exited %d" % ended)
                if ended:
                    _signal_all(_signal.SIGKILL)
            elif pid == self._probe:
                self._probe = None
                self._control.send(b"probed %d" % ended)

    def _obey(self, order: bytes) -> None:
        match order:
            case b"stop" if self._program is not None:
                os.kill(self._program, self._stop_signal)
            case b"stop":
                _signal_all(self._stop_signal)
            case b"probe":
                if self._probe is not None:
                    os.kill(self._probe, _signal.SIGKILL)
                self._probe = self._start(self._probe_argv, quiet=True)
            case _:  # kill, or the supervisor has ended
                _signal_all(_signal.SIGKILL)

    def _start(self, argv: list[str], *, quiet: bool) -> int:
        """Start a program as the service's user; a ``quiet`` one prints nothing."""
        pid = os.fork()
        if pid == 0:
            try:
                _signal.set_wakeup_fd(-1)
                os.setsid()
                restore_signals()
                if quiet:
                    null = os.open("/dev/null", os.O_RDWR)
                    for number in range(3):
                        os.dup2(null, number)
                os.closerange(3, os.sysconf("SC_OPEN_MAX"))
                self._user.become()
                os.chdir(self._folder)
                execute(argv, self._env)
            except OSError as error:
                where = "" if error.filename is None else f"{error.filename}: "
                os.write(2, f"the service cannot be started: {where}{error.strerror}\n".encode())
            finally:
                os._exit(_NOT_STARTED)
        return pid


def _signal_all(number: int) -> None:
    try:
        os.kill(-1, number)
    except ProcessLookupError:  # nothing runs
        return


class _User:
    """The user of an image, as its own files know it: a name or number, and perhaps a group after a colon."""

    def __init__(self, text: str) -> None:
        """Read the image's files, which are below the root of this process. Raises OSError for unknown names."""
        name, _, group = text.partition(":")
        users = _entries("/etc/passwd")
        found = next((user for user in users if len(user) > 5 and name in {user[0], user[2]}), None)  # noqa: PLR2004 - passwd(5)
        if not name:
            name = "0"
            found = next((user for user in users if len(user) > 5 and user[2] == "0"), None)  # noqa: PLR2004 - passwd(5)
        self._uid = _number(found[2] if found else name, "user", name)
        self._gid = _number(found[3], "group", found[3]) if found else 0
        self.home = found[5] if found else "/"
        groups = [entry for entry in _entries("/etc/group") if len(entry) > 3]  # noqa: PLR2004 - group(5)
        if group:
            named = next((entry for entry in groups if group in {entry[0], entry[2]}), None)
            self._gid = _number(named[2] if named else group, "group", group)
            self._groups = [self._gid]
        else:
            names = [found[0]] if found else []
            more = [entry[2] for entry in groups if not set(entry[3].split(",")).isdisjoint(names)]
            self._groups = sorted({self._gid, *(_number(each, "group", each) for each in more)})

    def become(self) -> None:
        """Become the user. Raises OSError."""
        os.setgroups(self._groups)
        os.setresgid(self._gid, self._gid, self._gid)
        os.setresuid(self._uid, self._uid, self._uid)


_MAX_ENTRIES_BYTES = 1 << 20
_MOST_IDS = 1 << 16


def _entries(path: str) -> list[list[str]]:
    """Return the entries of an image's file of users or groups; none if it has none."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return []
        with open(path, "rb") as file:
            text = file.read(_MAX_ENTRIES_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line.split(":") for line in text.splitlines()]


def _number(text: str, what: str, name: str) -> int:
    if text.isascii() and text.isdigit() and int(text) < _MOST_IDS:
        return int(text)
    raise OSError(22, f"its image has no {what} {name}")
