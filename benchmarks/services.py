"""The start of a job with a service, compared with the same by hand in plain namespaces."""

from __future__ import annotations

import shutil
import subprocess
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import uuid4

from actors.vms import CommandSpec, Connection, ServiceSpec, VmSpec, follow, start, start_services
from benchmarks.figures import Benchmark, interleaved
from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Figure
    from benchmarks.testbed import Testbed

_ROUNDS = 20
_PORT = 4001
_PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
_LISTEN = f"""
use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => {_PORT}, Listen => 5, ReuseAddr => 1) or die;
sleep 1000;
"""
_BY_HAND = """
exec unshare --user --map-auto --map-root-user --net --pid --fork --kill-child bash -ec '
    ip link set lo up
    enter() {
        exec unshare --mount --pid --fork --kill-child --uts --ipc sh -ec "
            mount -t overlay overlay -o userxattr,volatile,lowerdir=$2,upperdir=$1/upper,workdir=$1/work $1/root
            cd $1/root
            mount -t proc proc proc
            mount --rbind /dev dev
            exec chroot . \\"\\$@\\"
        " sh "${@:3}"
    }
    (enter "$1/service" "$2" perl -e "$3") &
    until (exec 3<>/dev/tcp/127.0.0.1/$4) 2>/dev/null; do sleep 0.005; done
    (enter "$1/job" "$2" true)
    echo done
' bash "$@"
"""


def _measure(testbed: Testbed) -> Iterator[Figure]:
    numbers = count()

    def by_hand() -> float:
        folder = testbed.folder / f"by-hand-{next(numbers)}"
        for part in ("service", "job"):
            for each in ("upper", "work", "root"):
                (folder / part / each).mkdir(parents=True)
        argv = ["sh", "-ec", _BY_HAND, "sh", str(folder), str(testbed.root), _LISTEN, str(_PORT)]
        started = perf_counter()
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            said = process.stdout.readline()
            took = (perf_counter() - started) * 1000
        if said != b"done\n":
            raise RuntimeError("the job by hand failed")
        for part in ("service", "job"):
            (folder / part / "work" / "work").chmod(0o700)
        shutil.rmtree(folder)
        return took

    yield interleaved("a parked VM, its service ready, `true`", "ms", _ROUNDS, lambda: _job(testbed), by_hand)


def _job(testbed: Testbed) -> float:
    """Start a job in a parked VM that is connected; return the milliseconds until its command has ended."""
    vm = str(uuid4())
    testbed.provider.park(vm)
    service = ServiceSpec("db", ("perl", "-e", _LISTEN), _PATH, ready_port=_PORT)
    with Connection(testbed.provider.connect(vm), SystemClock()) as connection:
        started = perf_counter()
        testbed.provider.attach(VmSpec(vm, testbed.image, network=False, services={"db": testbed.image}))
        start_services(connection, [service])
        start(connection, CommandSpec("true", env=_PATH))
        output = follow(connection)
        for _ in output:
            pass
        took = (perf_counter() - started) * 1000
    testbed.provider.destroy(vm)
    if output.exited is None or output.exited.exit_code:
        raise RuntimeError("`true` failed")
    return took


SERVICES = Benchmark(
    name="services",
    title="A job with a service, from the wish for its VM until its command, which waits for the service, has ended",
    baseline="two overlays with a program in namespaces each, by a shell script that waits for the port.",
    measure=_measure,
)
