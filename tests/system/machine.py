"""A throwaway machine for a test: a Debian with systemd as PID 1, in namespaces of this host."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.system import template
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNIFIED = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
_CONTROLLERS = ("cpu", "memory", "pids")
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
}
_NETWORK, _RESOLVER = "10.97.0.0/24", "10.97.0.3"
_CABLE = ("10.98.0.1", "10.98.0.2")
_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")

_BECOME_PID_1 = """
set -e
cd "$1"
mount --bind . .
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for controller in cpu memory pids; do
    if [ -e /sys/fs/cgroup/$controller/tasks ]; then
        mkdir -p cgroup/$controller
        mount -t cgroup -o $controller cgroup cgroup/$controller
    fi
done
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/net dev/pts dev/shm
for node in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 dev/${node%:*} c 1 ${node#*:}
done
mknod -m 666 dev/tty c 5 0
mknod -m 666 dev/net/tun c 10 200
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 tmpfs dev/shm
hostname machine
pivot_root . mnt
cd /
umount -l mnt
mount --make-rshared /
exec env -i container=tests PATH="$PATH" /sbin/init
"""


class Machine:
    """A Debian machine, as a context manager.

    Leaving the context removes its processes, mounts, control groups and files. Its files survive ``reboot``.
    Needs root.
    """

    def __init__(self, suite: str = "bookworm") -> None:
        self._suite = suite
        self._init: subprocess.Popen[bytes] | None = None
        self._slirp: subprocess.Popen[bytes] | None = None
        template.FOLDER.mkdir(parents=True, exist_ok=True)
        _remove_abandoned()
        self.root = Path(tempfile.mkdtemp(prefix="machine-", dir=template.FOLDER))
        self._lock = os.open(self.root, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def __enter__(self) -> Self:
        try:
            subprocess.run(["cp", "-a", f"{template.debian(self._suite)}/.", self.root], check=True)
            shutil.copytree(template.wheels(), self.root / "srv/wheels", dirs_exist_ok=True)
            (self.root / "etc/resolv.conf").write_text(f"nameserver {_RESOLVER}\n")
            self.boot()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The machine's PID 1, as numbered by this host."""
        assert self._init, "the machine is off"
        children = Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text().split()
        return int(children[0])

    def boot(self) -> None:
        """Switch it on, and wait until systemd has finished its start."""
        groups = list(self.groups())
        for group in groups:
            group.mkdir(exist_ok=True)
        joining = "".join(f"echo $$ >{group}/cgroup.procs; " for group in groups)
        argv = ["unshare", "--fork", "--kill-child", "--propagation", "private", *_NAMESPACES]
        argv += ["sh", "-c", _BECOME_PID_1, "sh", str(self.root)]
        argv = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", f"{joining} exec {shlex.join(argv)}"]
        with (self.root.with_name(f"{self.root.name}.console")).open("ab") as console:
            self._init = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        until(self._is_up, "systemd's answer", 60)
        network = ["slirp4netns", "--configure", "--mtu=65520", "--disable-host-loopback", f"--cidr={_NETWORK}"]
        self._slirp = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *network, str(self.pid), "tap0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: "tap0" in self.run("ip -4 route").stdout, "the machine's network")
        self.run("systemctl is-system-running --wait", check=False)

    def run(
        self, command: str, *, check: bool = True, seconds: float = 300, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command as the machine's root, and return its output and exit code.

        Raises AssertionError if ``check`` is set and the command fails.
        """
        joining = "".join(f"echo $$ >{group}/cgroup.procs; " for group in self.groups())
        inside = ["nsenter", "--target", str(self.pid), *_NAMESPACES, "--", "sh", "-c", command]
        done = subprocess.run(
            ["sh", "-c", f"{joining} exec {shlex.join(inside)}"],
            env=_ENVIRONMENT, input=stdin, capture_output=True, text=True, check=False, timeout=seconds, cwd="/",
        )  # fmt: skip
        if check and done.returncode != 0:
            raise AssertionError(f"{command!r} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def put(self, source: Path, target: str) -> None:
        """Copy a file or a folder of this host into the machine."""
        subprocess.run(["cp", "-a", source, self.root / target.lstrip("/")], check=True)

    def put_checkout(self, target: str, commit: str = "") -> None:
        """Copy this checkout's files, or those of one of its commits, into a new folder of the machine."""
        into = self.root / target.lstrip("/")
        into.mkdir(parents=True)
        files = (
            f"git archive {commit}"
            if commit
            else "git ls-files -z --cached --others --exclude-standard | tar -c --null -T -"
        )
        subprocess.run(["sh", "-c", f"{files} | tar -x -C {into}"], cwd=template.CHECKOUT, check=True)

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine, and make its folders."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def journal(self, *matches: str) -> str:
        """Return the messages of the machine's whole journal that have all the matches."""
        return self.run(f"journalctl --no-pager -o cat {shlex.join(matches)}").stdout

    def connect(self, other: Machine) -> tuple[str, str]:
        """Connect it to another machine by a cable, and return the addresses of the two there."""
        cable = ["ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(other.pid)]
        subprocess.run(["nsenter", "--target", str(self.pid), "--net", *cable], check=True)
        for machine, address in zip((self, other), _CABLE, strict=True):
            machine.run(f"ip address add {address}/30 dev cable; ip link set cable up")
        return _CABLE

    def reboot(self) -> None:
        """Reboot it cleanly, as its owner does."""
        self._leave("reboot", signal.SIGHUP)
        self.boot()

    def poweroff(self) -> None:
        """Shut it down cleanly."""
        self._leave("poweroff", signal.SIGINT)

    def cut_power(self) -> None:
        """Switch it off without warning."""
        if self._init is not None:
            with suppress(ProcessLookupError, IndexError, FileNotFoundError):
                os.kill(self.pid, signal.SIGKILL)
            self._off()

    def close(self) -> None:
        """Switch it off, and remove everything of it."""
        self.cut_power()
        shutil.rmtree(self.root)
        self.root.with_name(f"{self.root.name}.console").unlink(missing_ok=True)
        os.close(self._lock)

    def _leave(self, verb: str, sign: signal.Signals) -> None:
        assert self._init, "the machine is off"
        self.run(f"systemctl {verb}", check=False)
        code = self._init.wait(120)
        assert code == -sign, f"PID 1 ended with {code}: {self._console()}"
        self._off()

    def _off(self) -> None:
        assert self._init
        self._init.wait(30)
        self._init = None
        if self._slirp is not None:
            self._slirp.kill()
            self._slirp.wait(10)
            self._slirp = None
        for top in self.groups():
            _remove_group(top)

    def _is_up(self) -> bool:
        assert self._init
        if self._init.poll() is not None:
            raise AssertionError(f"PID 1 ended with {self._init.returncode}: {self._console()}")
        try:
            return self.run("systemctl is-system-running", check=False).stdout.strip() in {
                "starting",
                "running",
                "degraded",
            }
        except (IndexError, FileNotFoundError):
            return False

    def _console(self) -> str:
        return self.root.with_name(f"{self.root.name}.console").read_text(errors="replace")[-3000:]

    def groups(self) -> Iterator[Path]:
        """Yield the machine's control group in each of this host's hierarchies that it uses."""
        unified = next(Path(folder) for folder in _UNIFIED if Path(folder, "cgroup.controllers").exists())
        yield unified / self.root.name
        for name in _CONTROLLERS:
            if Path("/sys/fs/cgroup", name, "tasks").exists():
                yield Path("/sys/fs/cgroup", name, self.root.name)


def _remove_abandoned() -> None:
    """Remove the remains of machines whose test was killed, which left their lock free."""
    for root in template.FOLDER.glob("machine-*"):
        with suppress(OSError):
            descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(root)
                root.with_name(f"{root.name}.console").unlink(missing_ok=True)
            finally:
                os.close(descriptor)


def _remove_group(top: Path, seconds: float = 10.0) -> None:
    """Remove a control group and all below it, whose processes are dying or dead."""
    deadline = time.monotonic() + seconds
    while top.exists():
        for folder, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
        assert time.monotonic() < deadline, f"the control group {top} stays in use"
