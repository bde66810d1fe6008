"""A member of a fleet: a Debian in namespaces of this host that runs an engine on a btrfs pool."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.control_groups import ControlGroups, controllers
from tests.fleet.tree import tree

if TYPE_CHECKING:
    from tests.fleet.engine import Engine
    from tests.fleet.switch import Switch

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
}
_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
_STATE = "state"

_BECOME_PID_1 = """
set -e
tree=$1 folder=$2 name=$3 state=$4 pool_bytes=$5
shift 5
cd "$folder"
mount -t overlay -o "lowerdir=$tree,upperdir=$folder/upper,workdir=$folder/work" overlay root
cd root
mount -t proc proc proc
mount -t sysfs sysfs sys
if [ $# = 0 ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    mkdir sys/fs/cgroup/unified
    mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
    for controller; do
        mkdir "sys/fs/cgroup/$controller"
        option=$controller
        [ "$controller" = systemd ] && option=none,name=systemd
        mount -t cgroup -o "$option" cgroup "sys/fs/cgroup/$controller"
    done
fi
mkdir -p ".$state"
mount --bind "$folder/state" ".$state"
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/net dev/pts dev/shm dev/mqueue
for node in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 dev/${node%:*} c 1 ${node#*:}
done
mknod -m 666 dev/tty c 5 0
mknod -m 666 dev/net/tun c 10 200
mknod -m 666 dev/fuse c 10 229
mknod -m 600 dev/btrfs-control c 10 234
if [ ! -e srv/pool.img ]; then
    truncate -s "$pool_bytes" srv/pool.img
    chroot . mkfs.btrfs -q -f /srv/pool.img >&2
fi
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -o loop,user_subvol_rm_allowed "$folder/upper/srv/pool.img" srv/pool
hostname "$name"
mkdir -p mnt
pivot_root . mnt
cd /
umount -l mnt
mount --make-rshared /
ip link set lo up
echo up
exec env -i PATH="$PATH" tini -s -- sleep infinity >/dev/null
"""


class Member:
    """A machine with an engine; its files survive `kill`. Needs root.

    ``name`` is also the member's in its cluster, and ``number`` its place at the switch.
    """

    def __init__(
        self, engine: Engine, folder: Path, switch: Switch, name: str, number: int, *, pool_bytes: int = 20 << 30
    ) -> None:
        self.engine = engine
        self.name = name
        self.address = switch.address(number)
        self.folder = folder
        self._switch = switch
        self._number = number
        self._pool_bytes = pool_bytes
        self._outer: subprocess.Popen[str] | None = None
        self._groups = ControlGroups(f"{folder.parent.name}-{name}", controllers())
        for part in ("upper", "work", "root", _STATE):
            (folder / part).mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        """The address of its API by TLS, for clients in the network of the switch."""
        return f"https://{self.address}:8443"

    @property
    def socket(self) -> Path:
        """The engine's unix socket, reached from everywhere on this host as root."""
        return self.folder / _STATE / "unix.socket"

    @property
    def pid(self) -> int:
        """Its PID 1, as numbered by this host."""
        assert self._outer, f"{self.name} is off"
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        return int(children[0])

    @property
    def control_groups(self) -> list[Path]:
        """Its control groups on this host."""
        return list(self._groups)

    def log(self) -> str:
        """Return what its engine has logged: warnings and errors."""
        return (self.folder / "upper/root/engine.log").read_text(encoding="utf-8", errors="replace")

    def certificate(self) -> str:
        """Return the certificate that it serves, as PEM."""
        own = self.folder / _STATE / "server.crt"
        of_cluster = self.folder / _STATE / "cluster.crt"
        return (of_cluster if of_cluster.exists() else own).read_text(encoding="ascii")

    def boot(self) -> None:
        """Switch it on, and connect it; its engine is not running yet."""
        self._groups.make()
        inside = [str(tree(self.engine)), str(self.folder), self.name, self.engine.folder, str(self._pool_bytes)]
        argv = ["unshare", "--fork", "--kill-child", "--propagation", "private", *_NAMESPACES]
        argv += ["sh", "-c", _BECOME_PID_1, "sh", *inside, *controllers()]
        script = f"{self._groups.joining()} exec {shlex.join(argv)}"
        with (self.folder / "console").open("a") as console:
            self._outer = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "sh", "-c", script],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=console, text=True,
            )  # fmt: skip
        assert self._outer.stdout
        assert self._outer.stdout.readline() == "up\n", f"{self.name}: {(self.folder / 'console').read_text()}"
        self._switch.plug(self._number, self.pid)

    def start_engine(self) -> None:
        """Start the engine, and wait until it serves its socket."""
        self.run(
            f"mkdir -p /var/lib/lxcfs /var/log/{self.engine.name}; "
            "mountpoint -q /var/lib/lxcfs || setsid lxcfs /var/lib/lxcfs </dev/null >/root/lxcfs.log 2>&1 & "
            f"setsid {self.engine.daemon} --group root </dev/null >>/root/engine.log 2>&1 &"
        )
        self.run(f"{self.engine.daemon} waitready --timeout 60")

    def start(self) -> None:
        """Switch it on with its engine."""
        self.boot()
        self.start_engine()

    def reachable(self) -> bool:
        """Tell whether the engine accepts connections on its socket."""
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self.socket))
            except OSError:
                return False
        return True

    def kill_engine(self) -> None:
        """Kill the engine's process alone; instances go on."""
        self.run(f"kill -9 $(pgrep -xf '{self.engine.daemon} --group root')")

    def kill(self) -> None:
        """Cut its power: all its processes end at once, and its files stay."""
        if self._outer is None:
            return
        with suppress(ProcessLookupError, IndexError, FileNotFoundError):
            os.kill(self.pid, signal.SIGKILL)
        self._outer.kill()
        self._outer.communicate(timeout=30)
        self._outer = None
        self._groups.remove()

    def cut(self) -> None:
        """Take its cable out: it runs on, and nobody reaches it by network."""
        self._switch.cut(self._number)

    def mend(self) -> None:
        """Put its cable in again."""
        self._switch.mend(self._number)

    def run(self, command: str, *, check: bool = True, seconds: float = 120, stdin: str = "") -> str:
        """Run a shell command as the member's root, and return its output.

        Raises AssertionError if ``check`` is set and the command fails.
        """
        inside = ["nsenter", "--target", str(self.pid), *_NAMESPACES, "--", "sh", "-c", command]
        done = subprocess.run(
            ["sh", "-c", f"{self._groups.joining()} exec {shlex.join(inside)}"],
            env=_ENVIRONMENT, input=stdin, capture_output=True, text=True, check=False, timeout=seconds, cwd="/",
        )  # fmt: skip
        if check and done.returncode != 0:
            raise AssertionError(f"{self.name}: {command!r} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout
