"""The supervisor of a VM's job: it runs the command, keeps its output, and ends it at its time-out.

It is in the VM's outer layer, where the job cannot see it, and lives as long as the VM, whether the service lives or
not. Its children are in the job's namespaces.

The service talks with it over a socket that sshd connects. A conversation is one request: a line of a word and a
number, for ``start`` followed by so many bytes. The answer is lines; a line ``output N`` or ``result N`` is followed by
so many bytes. ``paused`` says that there is more output than is shown while the command runs, and ``skipped N`` that so
many bytes of it are not kept.

``services N`` starts the services beside the command, and is answered by ``ready`` once all are, or by ``failed N``
and so many bytes: a line that says why, and the last output of the service. ``follow:NAME N`` follows the output of a
service as ``follow N`` does that of the command. When the command has ended, the services are ended, too.

``told:NAME N`` asks for the first N bytes of a file by which the command tells something, and is answered by ``told``
with the size of the file and the number of the bytes that follow.

``terminal N`` starts a shell at a terminal, once, and is answered by ``started`` or ``failed``. ``screen N`` follows
what it prints from a byte on, after a line ``typed M`` with the number of bytes of input that were taken. ``type N`` is
followed by N bytes: the number of the first byte of input in eight of them, then input; and ``resize N`` by none, where
N has the columns and the rows. Both are answered by ``typed M``.

``port N`` connects to a port of the job, and is answered by ``open``, after which bytes pass both ways, or ``closed``.

Sessions of sshd ask it through a pipe to be let into the job's namespaces, a line each: the id of the session's
process, a word, and a number (``guest/request.sh``).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import _socket
import marshal
import os
import resource
import select
import stat
import struct

from .command import Command, Output, uptime
from .kernel import answer, await_children, descriptor_of, set_title, survive_failed_writes
from .namespaces import JobInit, Namespaces, mount_folder, open_entrance
from .ports import Relay, connect
from .processes import Processes
from .roots import REQUESTS, SEND_BYTES, SUPERVISOR
from .services import Service
from .shares import limit_of_job
from .terminal import Terminal, Terminals
from .told import Told

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn


_MAX_DESCRIPTORS = 32
_SPEC_BYTES = 1 << 16
_LINE_BYTES = 4096
_BACKLOG = 16
_FAILED = 1
_GRACE_SECONDS = 10.0
_MOST_WAIT = 24 * 3600 * 1000.0
"""The most milliseconds of one wait: poll(2) takes no more than an int has, 24 days."""


def run(control: int, init: JobInit, door: _socket.socket) -> NoReturn:
    """Make the namespaces of the job, enter its disk, which comes on ``control``, and serve until killed."""
    try:
        await_children()
        survive_failed_writes()
        set_title(b"supervisor")
        prepared = _prepared(init)
        listener = _socket.socket(fileno=control)
        connection = _socket.socket(fileno=listener._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001 - see init.py
        try:
            if isinstance(prepared, OSError):
                raise prepared
            job = prepared
            requests = os.open(REQUESTS, os.O_RDWR | os.O_NONBLOCK)
            service = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            service.bind(SUPERVISOR)
            service.listen(_BACKLOG)
            message, rights, _, _ = connection.recvmsg(_SPEC_BYTES, _socket.CMSG_SPACE(_MAX_DESCRIPTORS * 4))
            spec = marshal.loads(message)  # noqa: S302 - from the service itself
            disk, output, log, *others = (
                number for _, _, sent in rights for (number,) in struct.iter_unpack("i", sent)
            )
            services = [Service(name, others.pop(0), others.pop(0)) for name in spec.get("services", ())]
            groups = others
            os.dup2(log, 2)
            os.close(log)
            job.enter(spec, disk)
            told = Told(job.all_processes)
            answer(connection.fileno(), b"ready\n")
        except OSError as error:
            answer(connection.fileno(), f"failed {error}\n".encode())
            raise
        connection.close()
        listener.close()
        entrance = _Entrance(door, groups, spec["limits"])
        processes = _made(job, spec["limits"], groups)
        beside = _Services(services, job, spec, groups)
        terminals = Terminals(job, spec["limits"], groups)
        _Supervisor(requests, service, Output(output), entrance, processes, beside, terminals, told).serve()
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(1)


def _prepared(init: JobInit) -> Namespaces | OSError:
    """Return the job's namespaces, or the reason why they cannot be made, for its attach."""
    try:
        return Namespaces(init)
    except OSError as error:
        return error


def _made(job: Namespaces, limits: list[tuple[int, int, int]], groups: list[int]) -> Processes | OSError:
    """Return the processes of the command, or the reason why they cannot be made, for its start."""
    try:
        return Processes(job, limits, groups)
    except OSError as error:
        return error


class _Entrance:
    """The way for shells of the outer layer into the job's namespaces."""

    def __init__(self, door: _socket.socket, groups: list[int], limits: list[tuple[int, int, int]]) -> None:
        self._door = door
        self._open_to_all = [group for group in groups if os.fstat(group).st_mode & stat.S_IWOTH]
        self._groups = [group for group in groups if group not in self._open_to_all]
        self._limits = limits
        self._process = 0

    def admit(self, shell: int) -> int:
        """Limit a shell as the job; return the process whose namespaces it may enter. Raises OSError.

        The shell itself joins those control groups of the job that the VM's root may open (``guest/enter.sh``).
        """
        for group in self._groups:
            os.write(group, b"%d" % shell)
        most = limit_of_job()
        for kind, soft, hard in (*self._limits, (resource.RLIMIT_NPROC, most, most)):
            resource.prlimit(shell, kind, (soft, hard))
        self._process = self._process or open_entrance(self._door, self._open_to_all)
        return self._process


class _Services:
    """The services of the job, which its VM's spec describes, and the conversations that wait for them."""

    def __init__(self, services: list[Service], job: Namespaces, spec: dict[str, Any], groups: list[int]) -> None:
        self.by_name = {service.name: service for service in services}
        self.waiting: list[Conversation] = []
        self._job = job
        self._spec = spec
        self._groups = groups

    def start(self, content: bytes) -> None:
        """Start those of a request that are not started yet. Raises ValueError if the request was cut."""
        names = list(self.by_name)
        for wanted in marshal.loads(content):  # noqa: S302 - from the service itself
            spec = {
                **wanted,
                "memory_bytes": self._spec["memory_bytes"],
                "resolver": self._spec["resolver"],
                "services": names,
            }
            self.by_name[wanted["name"]].start(spec, self._job, self._spec["limits"], self._groups)

    def attend(self, ready: dict[int, int], command: Command | None) -> bytes | None:
        """Do what is due for each; return the answer to who waits for them, None if there is none yet.

        One that ends by itself may take the command with it.
        """
        for service in self.by_name.values():
            service.attend(ready)
            if command is not None and command.exit_code is not None:
                service.stop(_GRACE_SECONDS)
            elif command is not None and service.failed_job:
                command.terminate(_GRACE_SECONDS)
                command.enforce_times()
        failed = next((service for service in self.by_name.values() if service.failure), None)
        if failed is not None:
            why = f"{failed.name} {failed.failure}\n".encode() + failed.last_output
            return b"failed %d\n%s" % (len(why), why)
        return b"ready\n" if all(service.ready for service in self.by_name.values()) else None

    @property
    def descriptors(self) -> list[int]:
        """The descriptors to poll for `attend`."""
        return [each for service in self.by_name.values() for each in service.descriptors]

    @property
    def milliseconds_left(self) -> float | None:
        """The time until something is due; None if nothing is."""
        times = [service.due for service in self.by_name.values() if service.due is not None]
        return max(0.0, (min(times) - uptime()) * 1000 + 1) if times else None


class _Supervisor:
    """The command, conversations about it, and the doors of sessions into the job's namespaces."""

    def __init__(
        self,
        requests: int,
        listener: _socket.socket,
        output: Output,
        entrance: _Entrance,
        processes: Processes | OSError,
        services: _Services,
        terminals: Terminals,
        told: Told,
    ) -> None:
        self._told = told
        self._terminals = terminals
        self._requests = requests
        self._listener = listener
        self._output = output
        self._entrance = entrance
        self._processes = processes
        self._services = services
        self._command: Command | None = None
        self._conversations: dict[int, Conversation] = {}
        self._terminating: list[Conversation] = []
        self._relays: list[Relay] = []
        self._rest = b""

    def serve(self) -> NoReturn:
        """Handle requests, output and time-outs for ever."""
        while True:
            command = self._command
            ready = self._await(command)
            if command is not None:
                self._attend(command, ready)
            if self._services.by_name:
                self._attend_services(ready)
            if self._terminals.open is not None:
                self._attend_terminal(self._terminals.open, ready)
            for number in [each for each in ready if each in self._conversations]:
                self._converse(self._conversations[number], ready[number])
            for relay in [each for each in self._relays if not each.attend(ready)]:
                self._relays.remove(relay)
                relay.close()
            if self._listener.fileno() in ready:
                self._accept()
            if self._requests in ready:
                self._open_doors()

    def _await(self, command: Command | None) -> dict[int, int]:
        """Wait until there is something to do; return the events by descriptor."""
        poll = select.poll()
        for each in (self._requests, self._listener.fileno(), *self._services.descriptors):
            poll.register(each, select.POLLIN)
        if command is not None:
            for each in filter(lambda number: number >= 0, (command.readable_pipe, command.end)):
                poll.register(each, select.POLLIN)
        if (terminal := self._terminals.open) is not None:
            taken = all(each.idle for each in self._conversations.values() if each.followed is terminal)
            for number, events in terminal.polled(reading=taken):
                poll.register(number, events)
        for number, events in (each for relay in self._relays for each in relay.polled()):
            poll.register(number, events)
        for number, conversation in self._conversations.items():
            wanted = select.POLLOUT if not conversation.idle else 0 if conversation.asked else select.POLLIN
            poll.register(number, wanted)
        due = [self._services.milliseconds_left, *(each.milliseconds_left for each in (command, terminal) if each)]
        return dict(poll.poll(min([_MOST_WAIT, *(each for each in due if each is not None)])))

    def _attend(self, command: Command, ready: dict[int, int]) -> None:
        """Keep the command's output, note its end, and answer the conversations that wait for either."""
        if command.pipe in ready:
            command.keep_output()
        if command.end in ready:
            command.reap()
        command.enforce_times()
        if command.exit_code is not None:
            for conversation in self._terminating:
                self._end(conversation, b"dead\n")
            self._terminating.clear()
        for conversation in [each for each in self._conversations.values() if each.followed is command and each.idle]:
            self._copy_to(conversation, command)

    def _attend_services(self, ready: dict[int, int]) -> None:
        """Do what is due for the services, and answer the conversations that wait for them or follow one."""
        answer = self._services.attend(ready, self._command)
        if answer is not None:
            for conversation in self._services.waiting:
                self._end(conversation, answer)
            self._services.waiting.clear()
        for conversation in list(self._conversations.values()):
            if isinstance(conversation.followed, Service) and conversation.idle:
                self._copy_to(conversation, conversation.followed)

    def _attend_terminal(self, terminal: Terminal, ready: dict[int, int]) -> None:
        """Do what is due for the terminal, and pass on what it shows."""
        terminal.attend(ready)
        for conversation in [each for each in self._conversations.values() if each.followed is terminal and each.idle]:
            self._copy_to(conversation, terminal)

    def _accept(self) -> None:
        try:
            connection = _socket.socket(fileno=self._listener._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001 - see init.py
        except OSError:  # it has ended, or there is no room for its descriptor
            return
        os.set_blocking(connection.fileno(), False)
        connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, SEND_BYTES)
        self._conversations[connection.fileno()] = Conversation(connection)

    def _converse(self, conversation: Conversation, ready: int) -> None:
        if conversation.socket.fileno() < 0:  # closed meanwhile
            return
        try:
            if conversation.followed is not None and not ready & ~select.POLLOUT:
                self._copy_to(conversation, conversation.followed)
            elif conversation.asked:
                self._end(conversation)
            elif request := conversation.read():
                (self._relay if request[0] == b"port" else self._handle)(conversation, *request)
        except (OSError, ValueError):  # it has ended, or is not the service
            self._end(conversation)

    def _handle(self, conversation: Conversation, word: bytes, number: int, content: bytes) -> None:
        match word, self._command:
            case b"start", command:
                if command is None:
                    command = self._command = self._start(conversation, content)
                if command is not None:
                    conversation.say(b"started\n")
                    conversation.follow(command, 0)
                    self._copy_to(conversation, command)
            case b"services", _:
                self._services.start(content)
                self._services.waiting.append(conversation)
                self._attend_services({})
            case ((b"terminal" | b"type" | b"resize"), _):
                self._end(conversation, self._terminals.answer(word, number, content))
            case b"screen", _ if self._terminals.open is not None:
                self._show(conversation, self._terminals.open, number)
            case _ if (service := self._services.by_name.get(word.removeprefix(b"follow:").decode())) is not None:
                conversation.follow(service, number)
                self._copy_to(conversation, service)
            case _, None:
                self._end(conversation, b"none\n")
            case _, command:
                self._answer(conversation, command, word, number)

    def _relay(self, conversation: Conversation, _word: bytes, port: int, _content: bytes) -> None:
        """Connect to a port of the job, and let bytes pass from now on."""
        program = connect(port)
        if program is None:
            self._end(conversation, b"closed\n")
            return
        conversation.say(b"open\n")
        del self._conversations[conversation.socket.fileno()]
        self._relays.append(Relay(conversation.socket, program))

    def _show(self, conversation: Conversation, terminal: Terminal, number: int) -> None:
        """Begin to pass on what the terminal shows, from a byte on."""
        conversation.say(b"typed %d\n" % terminal.typed)
        conversation.follow(terminal, min(number, terminal.output.size))
        self._copy_to(conversation, terminal)

    def _answer(self, conversation: Conversation, command: Command, word: bytes, number: int) -> None:
        """Answer a request about a command that was started."""
        match word:
            case b"inspect":
                self._end(conversation, b"running\n" if command.exit_code is None else b"ended\n")
            case b"follow":
                conversation.follow(command, number)
                self._copy_to(conversation, command)
            case b"terminate":
                self._terminate(conversation, command, number)
            case _ if word.startswith(_TOLD):
                size, told = self._told.read(word.removeprefix(_TOLD), number)
                conversation.finish(b"told %d %d\n" % (size, len(told)) + told)
                conversation.followed = command
                self._copy_to(conversation, command)
            case _:
                self._end(conversation)

    def _start(self, conversation: Conversation, content: bytes) -> Command | None:
        try:
            spec: dict[str, Any] = marshal.loads(content)  # noqa: S302 - from the service itself
            if isinstance(self._processes, OSError):
                raise self._processes
            return Command(spec, self._processes, self._output, self._told)
        except (OSError, EOFError, ValueError) as error:  # no room for a process, or the spec was cut
            self._end(conversation, f"failed {error}\n".encode())
            return None

    def _copy_to(self, conversation: Conversation, followed: Command | Service | Terminal) -> None:
        try:
            ended = followed.exit_code is not None
            copied = conversation.copy(followed.output, whole=ended or followed is self._terminals.open)
            if copied and ended and not conversation.finished:
                result = followed.result
                conversation.finish(b"result %d\n%s" % (len(result), result))
                copied = conversation.copy(followed.output, whole=ended)
        except OSError:  # it has ended
            self._end(conversation)
        else:
            if copied and conversation.finished:
                self._end(conversation)

    def _terminate(self, conversation: Conversation, command: Command, grace: int) -> None:
        """End the command, KILL ``grace`` hundredths of a second after TERM; answer once it is dead."""
        if command.exit_code is not None:
            self._end(conversation, b"dead\n")
        else:
            self._terminating.append(conversation)
            command.terminate(grace / 100)
            command.enforce_times()

    def _end(self, conversation: Conversation, text: bytes = b"") -> None:
        """Answer and hang up."""
        self._conversations.pop(conversation.socket.fileno(), None)
        try:
            conversation.say(text)
        except OSError:  # it has ended
            pass
        finally:
            conversation.socket.close()

    def _open_doors(self) -> None:
        """Answer the sessions that ask to be let in."""
        *lines, self._rest = (self._rest + os.read(self._requests, _LINE_BYTES)).split(b"\n")
        for line in lines:
            pid, word, number = line.split()
            try:
                session = Session(int(pid))
            except OSError:  # it has ended
                continue
            try:
                session.answer(self._admit(session, word, int(number)))
            except OSError as error:
                os.write(2, f"{error}\n".encode())
                session.answer(_FAILED)

    def _admit(self, session: Session, word: bytes, number: int) -> int:
        """Return the answer to a session. Raises OSError if it cannot be let in."""
        if (folder := _FOLDERS.get(word)) is not None:
            return 0 if mount_folder(session.pidfd, folder) else _FAILED
        return self._entrance.admit(number)


_FOLDERS = {b"workspace": "/workspace", b"home": "/root"}
"""The folders of the job that sessions may have, by their words."""

_CHUNK = 1 << 20
_MAX_REQUEST = 16 << 20
_SHORT_LINE_BYTES = 100
_TOLD = b"told:"
_WITH_CONTENT = (b"start", b"services", b"terminal", b"type")
"""The requests that are followed by as many bytes as their number says."""


class Conversation:
    """One connection. Its methods raise OSError once the other end is gone, and BlockingIOError never."""

    def __init__(self, socket: _socket.socket) -> None:
        self.socket = socket
        self.idle = True
        """True if the other end has taken all that there is."""
        self.asked = False
        """True once the request has come."""
        self.followed: Command | Service | Terminal | None = None
        self.finished = False
        """True once the result is on its way."""
        self._received = b""
        self._offset = self._position = 0
        self._paused = False
        self._head = b""
        self._left = 0

    def read(self) -> tuple[bytes, int, bytes] | None:
        """Return the request, as its word, number and bytes; None if more of it is to come."""
        chunk = self.socket.recv(_CHUNK)
        self._received += chunk
        line, newline, rest = self._received.partition(b"\n")
        word, _, number = line.partition(b" ")
        complete = newline and (word not in _WITH_CONTENT or len(rest) >= int(number))
        if complete:
            self.asked = True
            return word, int(number), rest
        if not chunk or len(self._received) > _MAX_REQUEST or (not newline and len(line) > _SHORT_LINE_BYTES):
            raise ConnectionAbortedError
        return None

    def say(self, text: bytes) -> None:
        """Send a short answer, for which a new connection has room."""
        self.socket.send(text)

    def follow(self, followed: Command | Service | Terminal, offset: int) -> None:
        """Begin to copy an output from a byte on."""
        self.followed, self._offset = followed, offset

    def finish(self, answer: bytes) -> None:
        """Let an answer follow the output that was copied, and be the last."""
        self.finished, self._head = True, answer

    def copy(self, output: Output, *, whole: bool) -> bool:
        """Copy as much of the output as the other end takes now; tell if that is all.

        Without ``whole`` more may come.
        """
        self.idle = False
        try:
            while self._head or self._left or (not self.finished and self._next_block(output, whole=whole)):
                if self._head:
                    self._head = self._head[self.socket.send(self._head) :]
                else:
                    sent = os.sendfile(self.socket.fileno(), output.file, self._position, self._left)
                    self._position += sent
                    self._left -= sent
        except BlockingIOError:
            return False
        self.idle = True
        return True

    def _next_block(self, output: Output, *, whole: bool) -> bool:
        """Begin the next block of output, or say what is not in it; tell if there is anything."""
        skipped, self._position, size = output.block(self._offset, whole=whole)
        self._left = min(size, _CHUNK)
        self._offset += skipped + self._left
        if skipped:
            self._head = b"skipped %d\n" % skipped
        if self._left:
            self._head += b"output %d\n" % self._left
        elif not whole and not self._paused and output.head <= self._offset < output.size:
            self._paused, self._head = True, b"paused\n"
        return bool(self._head)


_ANSWER = 4
"""The descriptor of a session's process that takes the answer."""


class Session:
    """A session that waits for its answer."""

    def __init__(self, pid: int) -> None:
        """Find a session's process. Raises OSError if it has ended."""
        self.pidfd = os.pidfd_open(pid)

    def answer(self, number: int) -> None:
        """Let the session go on with this answer."""
        try:
            answer = descriptor_of(self.pidfd, _ANSWER)
            os.write(answer, b"%d\n" % number)
            os.close(answer)
            _signal.pidfd_send_signal(self.pidfd, _signal.SIGPIPE)  # a shell is silent about children that this ends
        except OSError:  # it has ended
            pass
        os.close(self.pidfd)
