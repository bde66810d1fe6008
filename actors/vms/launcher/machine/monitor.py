"""The monitor of a machine: it runs QEMU, keeps the console and opens connections to the sshd.

It is PID 1 of a PID namespace that holds QEMU and the program for its network, so they are killed with it; if one of
the two ends, it ends too. QEMU is in a network namespace of its own, whose rules close the same addresses as those of a
sandbox: what the guest sends leaves through QEMU's sockets. A connection to the guest's sshd is opened in that
namespace and handed to the service, so no port of the host is open.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import _socket
import array
import errno
import marshal
import os
import resource
import select

from .. import kernel, network, shares
from ..ids import become_root, own_id
from ..trees import make_directory
from . import console, qemu_process
from .words import ATTACHED, FAILED, READY, SSH_PORT

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

_FOLDER = "/tmp"  # noqa: S108 - a file system of its own, in this process's mount namespace
_CHECK_SECONDS = 5.0
_REQUEST_SECONDS = 5.0
_REQUEST_BYTES = 4096


def run(spec: dict[str, Any], mapped: int, report: int, log: int) -> NoReturn:
    """Make the machine and run until it ends. Writes ``ready`` or ``failed WHY`` to ``report``."""
    try:
        _Monitor(spec, mapped, report, log).serve()
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        os.write(report, f"failed {error}\n".encode())
    finally:
        os._exit(1)


class _Monitor:
    def __init__(self, spec: dict[str, Any], mapped: int, report: int, log: int) -> None:
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
        files = [os.open(path, os.O_RDONLY) for path in spec["files"]]
        self._console = console.Console(spec["console"])
        self._lock, self._report, self._awaited = spec["lock"], report, READY
        if os.read(mapped, 1) != b"1":
            os._exit(1)
        become_root()
        kernel.set_dumpable(dumpable=True)
        os.umask(0o022)
        kernel.mount("tmpfs", _FOLDER, "tmpfs", data="mode=755,size=1m")
        self._network = network.NetworkProgram(spec["network"], _FOLDER, log)
        shares.bound(spec["share_of_limits"], spec["share_of_objects"])
        kernel.unshare(kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS)
        network.raise_loopback()
        network.set_rules(spec["network"]["rules"])
        network.publish(int(own_id()), _FOLDER)
        make_directory(f"{_FOLDER}/root", 0o755)
        files.append(spec["commands"])
        self._qemu, self._output = qemu_process.start(spec, files, log, f"{_FOLDER}/root")
        self._listener, self._control = (_socket.socket(fileno=spec[name]) for name in ("listener", "control"))
        for each in files:
            os.close(each)
        _signal.signal(_signal.SIGTERM, self._terminate)
        kernel.set_title(f"ci-daemon VM {spec['id']}".encode())

    def serve(self) -> None:
        """Keep the console and serve the service, until a child ends or the VM's folder is removed."""
        turns = {
            self._output: self._keep_output,
            self._listener.fileno(): self._connect,
            self._control.fileno(): self._attach,
        }
        poll = select.poll()
        for each in (*turns, os.pidfd_open(self._qemu)):
            poll.register(each, select.POLLIN)
        while os.fstat(self._lock).st_nlink:
            ready = [number for number, _ in poll.poll(_CHECK_SECONDS * 1000)]
            for each in filter(turns.__contains__, ready):
                turns[each]()
            if set(ready) - turns.keys() or kernel.child_ended(0):
                break
        self._keep_rest()
        self._tell(b"failed QEMU ended: " + self._console.last_line)

    def _keep_output(self) -> None:
        self._console.keep(os.read(self._output, console.CHUNK_BYTES))
        if self._console.has(self._awaited):
            self._tell(b"ready")
        elif self._console.has(FAILED):
            self._tell(b"failed " + self._console.last_line)

    def _keep_rest(self) -> None:
        """Keep what QEMU printed before it ended, which tells why."""
        os.set_blocking(self._output, False)
        try:
            while rest := os.read(self._output, console.CHUNK_BYTES):
                self._console.keep(rest)
        except BlockingIOError:  # it still runs: the VM is being removed
            return

    def _tell(self, what: bytes) -> None:
        """Report how the start or the attach went, once."""
        if self._report < 0:
            return
        try:
            os.write(self._report, what.replace(b"\n", b" ") + b"\n")
        except BrokenPipeError:  # the service has died; its successor looks at the VM itself
            pass
        finally:
            os.close(self._report)
            self._report = -1

    def _attach(self) -> None:
        """Connect the network, if the job is to have it, and bound what QEMU writes.

        The answer follows the guest's.
        """
        accepted = _socket.socket(fileno=self._control._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001 - see init.py
        try:
            accepted.settimeout(_REQUEST_SECONDS)
            job = marshal.loads(accepted.recv(_REQUEST_BYTES))  # noqa: S302 - from the service itself
        except (OSError, EOFError):  # the service has died
            accepted.close()
            return
        accepted.settimeout(None)
        self._report, self._awaited = accepted.detach(), ATTACHED
        most = job["largest_file"]
        try:
            resource.prlimit(self._qemu, resource.RLIMIT_FSIZE, (most, most))
            if job["network"]:
                self._network.go()
                self._network.wait()
        except OSError as error:
            self._tell(f"failed {error}".encode())

    def _connect(self) -> None:
        """Begin a connection to the guest's sshd, and send it to the service, which waits for QEMU to take it.

        QEMU takes none while it is busy, and the kernel keeps two for it; nothing else of the machine waits for that.
        """
        accepted = _socket.socket(fileno=self._listener._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001 - see init.py
        connection = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        try:
            connection.setblocking(False)  # noqa: FBT003 - the function's own argument
            if (begun := connection.connect_ex(("127.0.0.1", SSH_PORT))) not in {0, errno.EINPROGRESS}:
                raise OSError(begun, os.strerror(begun))
            _hand_over(connection, accepted)
        except OSError as error:  # QEMU has ended, or the service has hung up
            _explain(error, accepted)
        finally:
            connection.close()
            accepted.close()

    def _terminate(self, *_: object) -> None:
        """Let QEMU write what it has of the disks, and end."""
        os.kill(self._qemu, _signal.SIGTERM)


def _hand_over(connection: _socket.socket, accepted: _socket.socket) -> None:
    """Send a connection, which counts on its way for an id that no VM has.

    Jobs may have used up what the ids of theirs may have in flight.
    """
    rights = array.array("i", [connection.fileno()]).tobytes()
    os.setresuid(shares.NETWORK_PROGRAM_ID, 0, 0)
    try:
        accepted.sendmsg([b"1"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    finally:
        os.setresuid(0, 0, 0)


def _explain(error: OSError, accepted: _socket.socket) -> None:
    try:
        accepted.send(str(error).encode())
    except OSError:
        return  # nobody is there to read it
