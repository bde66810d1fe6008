"""The inside of a VM in memory, which answers the guest scripts of the service as a real VM does."""

from __future__ import annotations

import io
import marshal
import posixpath
import shlex
import signal
import tarfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import paramiko

from actors.vms import script, told_path
from tests.memory.shell import UNKNOWN_EXIT, Shell

_REFUSED = 69
_WORKSPACE = "/workspace"
_KILL_SECONDS = 10.0
_TOLD = told_path("")


class Guest:
    """A VM's files, and its one command. Any thread may use it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._command: _Command | None = None
        self._shells: list[Shell] = []
        self._lock = threading.Lock()
        self._ended = False

    def run(self, program: str, stdin: bytes, session: paramiko.Channel) -> int:
        """Run a shell script as it comes over SSH; return its exit code."""
        settings = dict(word.split("=", 1) for word in shlex.split(program, comments=True) if "=" in word)
        if program.endswith(script("confined")):
            return self._run_in_workspace(settings["program"], stdin, session)
        if program.endswith(script("request", "enter")):
            program = settings["program"]
        shell = Shell(self.files, session.sendall, stdin=stdin)
        with self._lock:
            if self._ended:
                return 1
            self._shells.append(shell)
        return shell.run(program)

    def end(self) -> None:
        """Kill all that runs in it, for good."""
        with self._lock:
            self._ended = True
        for shell in self._shells:
            shell.signal(signal.SIGKILL)
        if self._command is not None:
            self._command.end(0)

    def converse(self, word: str, content: bytes, number: int, service: paramiko.Channel) -> None:
        """Answer one request about the command, as the supervisor of a job does."""
        if word == "start" and not self._start(content, service):
            return
        command = self._command
        if command is None:
            service.sendall(b"none\n")
            return
        match word:
            case "start":
                service.sendall(b"started\n")
                _copy_output(command, 0, service)
            case "follow":
                _copy_output(command, number, service)
            case "inspect":
                service.sendall(b"ended\n" if command.ended_within(0) else b"running\n")
            case "terminate":
                command.end(number / 100)
                service.sendall(b"dead\n")
            case "port":  # every one is listened to while the command runs
                service.sendall(b"closed\n" if command.ended_within(0) else b"open\n")
            case _ if word.startswith("told:"):
                content = self.files.get(told_path(word.removeprefix("told:")), b"")
                told = content[:number]
                service.sendall(b"told %d %d\n" % (len(content), len(told)) + told)

    def _start(self, content: bytes, service: paramiko.Channel) -> bool:
        spec = marshal.loads(content)
        with self._lock:
            if self._ended:
                service.sendall(b"failed the VM has ended\n")
                return False
            if self._command is None:
                self._command = _Command(self.files, spec)
        return True

    def _run_in_workspace(self, program: str, stdin: bytes, session: paramiko.Channel) -> int:
        unpack = script("unpack")
        if program == "exec sh":
            return self._clear(_WORKSPACE, stdin.decode().removeprefix(script("clear")))
        if not program.endswith(unpack):
            session.sendall_stderr(b"this guest does not know the program")
            return UNKNOWN_EXIT
        if program.removesuffix(unpack) == script(empty="yes") and self._below(_WORKSPACE):
            return _REFUSED
        with tarfile.open(fileobj=io.BytesIO(stdin)) as tar:
            for member in tar:
                if content := tar.extractfile(member):
                    self.files[posixpath.join(_WORKSPACE, member.name)] = content.read()
        return 0

    def _clear(self, workspace: str, program: str) -> int:
        """Run the program of `removal_script`. Folders exist only as parts of the names of files."""
        folders = [workspace]
        for line in program.splitlines():
            match shlex.split(line):
                case ["down", state, name]:
                    folders.append(posixpath.normpath(posixpath.join(folders[-1], name)))
                    if state == "kept" and not self._below(folders[-1]):
                        return _REFUSED
                    self.files.pop(folders[-1], None)
                case ["up"]:
                    folders.pop()
                case ["drop", *names]:
                    for path in (posixpath.normpath(posixpath.join(folders[-1], name)) for name in names):
                        for each in [path, *self._below(path)]:
                            self.files.pop(each, None)
        return 0

    def _below(self, folder: str) -> list[str]:
        return [path for path in list(self.files) if path.startswith(f"{folder}/")]


def _copy_output(command: _Command, offset: int, service: paramiko.Channel) -> None:
    for line, chunk in command.output_from(offset):
        service.sendall(line + chunk)
    result = command.result()
    service.sendall(b"result %d\n" % len(result) + result)


class _Command:
    """The one command of a VM, and what its supervisor keeps of it."""

    def __init__(self, files: dict[str, bytes], spec: dict[str, Any]) -> None:
        """Start it; ``spec`` is that of `actors.vms.start`."""
        *options, flag, command = spec["arguments"]
        assert (flag, options) in (("-c", []), ("-c", ["-e"]))
        self._tail: int = spec["output_tail"]
        self._head: int = spec["output_limit"] - self._tail
        self._changed = threading.Condition()
        self._output = b""
        self._ending = self._timed_out = False
        self._exit_code = 0
        self._started = time.monotonic()
        self._ended: float | None = None
        self._files = files
        for path in [path for path in files if path.startswith(_TOLD)]:  # of no disk
            del files[path]
        self._shell = Shell(files, self._keep, env=spec["env"], cwd=spec["cwd"])
        limits = spec["seconds"], spec["grace"]
        threading.Thread(target=self._run, args=(command, bool(options)), name="guest", daemon=True).start()
        threading.Thread(target=self._watch, args=limits, name="guest-watch", daemon=True).start()

    def ended_within(self, seconds: float) -> bool:
        """Wait for the command's end; False if it still runs."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ended is not None, seconds)

    def end(self, grace: float, *, timed_out: bool = False) -> None:
        """End the command: TERM, its grace, KILL. Only the first call sends TERM."""
        with self._changed:
            first, self._ending = not self._ending, True
            self._timed_out |= first and timed_out
        if first:
            self._shell.signal(signal.SIGTERM)
        if not self.ended_within(grace):
            self._shell.signal(signal.SIGKILL)
            self.ended_within(_KILL_SECONDS)

    def output_from(self, offset: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield the output from a byte on as it arrives, each piece after a line, until the command has ended."""
        size, over, paused = 0, False, False
        while not over:
            with self._changed:
                while self._ended is None and (paused or len(self._output) <= offset):
                    self._changed.wait()
                chunk, size, over = self._output[offset : self._head], len(self._output), self._ended is not None
            offset += len(chunk)
            if chunk:
                yield b"output %d\n" % len(chunk), chunk
            if not over and size > offset >= self._head and not paused:
                paused = True
                yield b"paused\n", b""
        start = max(offset, size - self._tail)
        if start > offset:
            yield b"skipped %d\n" % (start - offset), b""
        if size > start:
            yield b"output %d\n" % (size - start), self._output[start:]

    def result(self) -> bytes:
        """Return the lines of the result, as the supervisor of a job's command does."""
        timed_out = "timed-out\n" if self._timed_out else ""
        told = " ".join(path.removeprefix(_TOLD) for path in self._files if path.startswith(_TOLD))
        size = f"output {self._kept} {len(self._output) - self._kept}\nended {self._ended}\n"
        exited = f"{timed_out}exit {self._exit_code}\n{size}now {time.monotonic()}\n"
        return f"started {self._started}\ntold {told}\n{exited}".encode()

    @property
    def _kept(self) -> int:
        return min(len(self._output), self._head + self._tail)

    def _keep(self, data: bytes) -> None:
        with self._changed:
            self._output += data
            self._changed.notify_all()

    def _run(self, command: str, strict: bool) -> None:
        exit_code = self._shell.run(command, strict=strict)
        with self._changed:
            self._exit_code, self._ended = exit_code, time.monotonic()
            self._changed.notify_all()

    def _watch(self, allowed: float, grace: float) -> None:
        if not self.ended_within(allowed):
            self.end(grace, timed_out=True)
