"""Services beside a command: what they run as, when they are ready, how they end, what they reach."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.vms import (
    CommandSpec,
    Connection,
    Provider,
    ServiceEnd,
    ServiceFailed,
    ServiceSpec,
    VmSpec,
    follow,
    follow_service,
    start,
    start_services,
)
from storage import Shape, SystemClock
from tests.actors.vms.commands import TIMEOUT
from tests.vms.contract.conftest import Vm
from tests.vms.contract.hosts import IMAGE, Host
from tests.waiting import until

pytestmark = pytest.mark.real

PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
ECHO = """
use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 5, ReuseAddr => 1) or die;
$| = 1; print "listening at $ARGV[0]\\n";
while (my $client = $server->accept) { my $line = <$client>; print $client "$ARGV[1]: $line"; close $client }
"""


def echo(name: str, port: int, **fields: object) -> ServiceSpec:
    """Return a service that answers each line at a port with its name before it."""
    return ServiceSpec(name, ("perl", "-e", ECHO, str(port), name), PATH, **{"ready_port": port, **fields})  # type: ignore[arg-type]


def sh(name: str, program: str, **fields: object) -> ServiceSpec:
    """Return a service that is a program of sh."""
    return ServiceSpec(name, ("sh", "-c", program), PATH, **fields)  # type: ignore[arg-type]


Beside = Callable[..., Connection]


@pytest.fixture
def beside(provider: Provider, request: pytest.FixtureRequest) -> Beside:
    """Return a connection to a VM with disks of services of these names."""

    def boot(*names: str) -> Connection:
        services = dict.fromkeys(names, IMAGE)
        provider.create(VmSpec("with-services", IMAGE, shape=Shape(memory_gb=1), network=False, services=services))
        connection = Vm(provider, "with-services").connect()
        request.addfinalizer(lambda: provider.destroy("with-services"))
        request.addfinalizer(connection.close)
        return connection

    return boot


def ask(host: str, port: int, line: str) -> str:
    """Return a command that sends a line to a port, and prints the answer."""
    return f"exec 3<>/dev/tcp/{host}/{port} && echo {line} >&3 && cat <&3"


def run(connection: Connection, command: str) -> tuple[int, str]:
    """Run the command of a VM to its end; return its exit code and output."""
    start(connection, CommandSpec(command, env=PATH))
    output = follow(connection)
    text = b"".join(output).decode()
    assert output.exited is not None
    return output.exited.exit_code, text


def output_of(connection: Connection, name: str) -> tuple[str, ServiceEnd | None]:
    """Return all that a service prints, and how it ended."""
    output = follow_service(connection, name)
    text = b"".join(output).decode()
    return text, output.exited


@pytest.mark.essential
def test_command_reaches_services_by_name(beside: Beside) -> None:
    """Each has a port of the job's network, and all are ready before the command begins."""
    connection = beside("one", "two")
    start_services(connection, [echo("one", 4001), echo("two", 4002)])
    asked = f"({ask('one', 4001, 'a')}); ({ask('two', 4002, 'b')}); ({ask('localhost', 4001, 'c')})"
    assert run(connection, asked) == (0, "one: a\ntwo: b\none: c\n")
    assert output_of(connection, "one") == ("listening at 4001\n", ServiceEnd(143, stopped=True))


@pytest.mark.parametrize(
    ("program", "sign"),
    [
        ("sleep 0.3; touch /tmp/up; exec sleep 1000", {"ready_command": "test -e /tmp/up"}),
        ("sleep 0.3; printf 'is now '; sleep 0.2; echo up; exec sleep 1000", {"ready_log": "now up"}),
        ("exec sleep 1000", {}),
    ],
    ids=["command", "log", "none"],
)
def test_service_is_ready_by_its_sign(beside: Beside, program: str, sign: dict[str, object]) -> None:
    """Its init, the supervisor, or the start itself tells, also where the text comes in parts."""
    connection = beside("one")
    start_services(connection, [sh("one", program, **sign)])
    start_services(connection, [sh("one", program, **sign)])  # as a successor would: nothing is started twice
    assert run(connection, "true") == (0, "")
    _, end = output_of(connection, "one")
    assert end == ServiceEnd(143, stopped=True)


@pytest.mark.parametrize(
    ("service", "why"),
    [
        (
            sh("one", "echo a; echo b; exec sleep 1000", ready_port=4, ready_seconds=1),
            "nothing takes connections at its",
        ),
        (sh("one", "echo a; echo b; exec sleep 1000", ready_log="c", ready_seconds=1), 'its log has no "c"'),
        (sh("one", "echo a; echo b; exec sleep 1000", ready_command="exec sleep 99", ready_seconds=1), "does not pass"),
        (sh("one", "echo a; echo b; exit 3", ready_port=4), "it ended with exit code 3 before it was ready"),
        (ServiceSpec("one", ("nothing",), PATH, ready_port=4), "there is no such program in its image"),
        (sh("one", "exec sleep 1", user="nobody-here", ready_port=4), "its image has no user nobody-here"),
    ],
    ids=["port", "log", "command", "end", "program", "user"],
)
def test_failed_service_says_why_in_its_own_words(beside: Beside, service: ServiceSpec, why: str) -> None:
    """The last lines of its output are told, too."""
    connection = beside("one")
    with pytest.raises(ServiceFailed) as failed:
        start_services(connection, [service])
    assert "the service one failed: " in str(failed.value)
    assert why in str(failed.value)
    assert str(failed.value).endswith("its last lines: a | b") or "there is no" in why or "has no user" in why


def test_service_runs_as_its_user_with_its_environment(beside: Beside) -> None:
    """It has its own folder, host name, files and processes, and fewer capabilities than the job."""
    connection = beside("one")
    look = """
        id -un; id -gn; echo $HOME $A; pwd; hostname
        ls -d /proc/[0-9]* | wc -l; grep -E '^(127|::1)' /etc/hosts; grep CapBnd /proc/self/status; exec sleep 1000
    """
    one = ServiceSpec(
        "one", ("sh", "-c", look), {**PATH, "A": "1 2"}, user="www-data", folder="/srv/some", ready_log="Cap"
    )
    start_services(connection, [one])
    start(connection, CommandSpec("ps -e -o comm= | sort -u; echo x >/made", env=PATH))
    text = b"".join(follow(connection)).decode()
    assert "sleep" not in text
    shown, _ = output_of(connection, "one")
    user, group, env, folder, name, processes, *hosts, capabilities = shown.splitlines()
    assert (user, group, env, folder, name) == ("www-data", "www-data", "/var/www 1 2", "/srv/some", "one")
    assert int(processes) <= 4
    assert "127.0.0.1 one" in hosts
    bound = int(capabilities.split()[1], 16)
    assert not bound & (1 << 21 | 1 << 19 | 1 << 13 | 1 << 12)


def test_service_that_ends_is_told_and_may_take_the_command(beside: Beside) -> None:
    """With fails_job the command gets TERM, and the service was not asked to end."""
    connection = beside("one", "two")
    start_services(connection, [sh("one", "sleep 0.5; exit 7", fails_job=True), sh("two", "exec sleep 1000")])
    began = SystemClock().monotonic()
    code, _ = run(connection, "sleep 1000")
    assert code == 143
    assert SystemClock().monotonic() - began < TIMEOUT
    assert output_of(connection, "one")[1] == ServiceEnd(7, stopped=False)
    assert output_of(connection, "two")[1] == ServiceEnd(143, stopped=True)


def test_program_in_the_background_is_a_service(beside: Beside) -> None:
    """The rest of it runs on, and is asked to end like a program itself."""
    connection = beside("one")
    daemon = "(trap 'echo bye; exit' TERM; echo up; while :; do sleep 0.1; done) & exit 0"
    start_services(connection, [sh("one", daemon, ready_log="up")])
    assert run(connection, "sleep 0.3") == (0, "")
    text, end = output_of(connection, "one")
    assert (text.splitlines()[0], text.splitlines()[-1]) == ("up", "bye")
    assert end == ServiceEnd(0, stopped=True)


def test_service_is_asked_to_end_by_its_signal(beside: Beside) -> None:
    """Its own is told apart from TERM, which it may take for something else."""
    connection = beside("one")
    program = "trap '' TERM; trap 'echo asked; exit 3' INT; echo up; while :; do sleep 0.1; done"
    start_services(connection, [sh("one", program, ready_log="up", stop_signal=2)])
    run(connection, "true")
    assert output_of(connection, "one") == ("up\nasked\n", ServiceEnd(3, stopped=True))


def test_service_that_ignores_its_end_is_killed(beside: Beside) -> None:
    """Nothing of it is left, whatever it started."""
    connection = beside("one")
    start_services(connection, [sh("one", "trap '' TERM; (trap '' TERM; sleep 1000) & echo up; wait", ready_log="up")])
    run(connection, "true")
    assert output_of(connection, "one") == ("up\n", ServiceEnd(137, stopped=True))


def test_what_a_service_kills_is_its_own(beside: Beside) -> None:
    """Neither the command nor the other service, nor what serves the VM, is in its reach."""
    connection = beside("one", "two")
    kill = "trap '' TERM; kill -KILL -1; kill -TERM 1; for n in $(seq 1 300); do kill -KILL $n 2>/dev/null; done"
    start_services(connection, [echo("two", 4002), sh("one", f"sleep 0.2; {kill}; exec sleep 1000")])
    assert run(connection, f"sleep 1; {ask('two', 4002, 'alive')}") == (0, "two: alive\n")


TAKES_MEMORY = """
import mmap, os
taken = mmap.mmap(-1, 8)
for _ in range(3):
    if os.fork() == 0:
        blocks = []
        while True:
            blocks.append(os.urandom(1) * (1 << 22))
            taken[:8] = len(blocks).to_bytes(8, "little")
    os.wait()
    print(int.from_bytes(taken[:8], "little") * 4, "MiB", flush=True)
os.execlp("sleep", "sleep", "1000")
"""


@pytest.mark.limited("memory")
def test_memory_that_a_service_takes_is_the_job_s(beside: Beside) -> None:
    """It gets no more than the job has, and is killed itself: the command and another service run on."""
    connection = beside("one", "two")
    hog = ServiceSpec("one", ("python3", "-c", TAKES_MEMORY), PATH, ready_log="MiB")
    start_services(connection, [hog, echo("two", 4002)])
    assert run(connection, f"sleep 1; {ask('two', 4002, 'alive')}") == (0, "two: alive\n")
    taken = [int(line.split()[0]) for line in output_of(connection, "one")[0].splitlines()]
    assert taken[0] > 512  # more than what serves the VM has, whose share it is not
    assert max(taken) <= 1280  # an engine's container has a quarter beyond its job's


def test_command_cannot_reach_the_processes_of_a_service(beside: Beside) -> None:
    """It sees none of them, and a signal to all leaves the service as it was."""
    connection = beside("one")
    start_services(connection, [echo("one", 4001)])
    kill = "trap '' TERM; { kill -TERM -1; for n in $(seq 2 300); do [ $n = $$ ] || kill -TERM $n; done; } 2>/dev/null"
    assert run(connection, f"{kill}; {ask('one', 4001, 'alive')}") == (0, "one: alive\n")


def test_services_see_no_folder_of_the_outer_layer(beside: Beside) -> None:
    """Of the job's disk it has the folders that it was given, and nothing else from outside."""
    connection = beside("one")
    look = "cut -d' ' -f 5 /proc/self/mountinfo | sort | tr '\\n' ' '; echo; ls /run /data; echo end; exec sleep 1000"
    start_services(connection, [sh("one", look, files={"/data": "/srv/data"}, ready_log="end")])
    assert run(connection, "ls -d /srv/data") == (0, "/srv/data\n")
    shown, _ = output_of(connection, "one")
    mounts = set(shown.splitlines()[0].split())
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "pts", "shm")}
    assert mounts == {"/", "/proc", "/sys", "/dev", "/data", *devices}
    assert "ci-daemon" not in shown


def test_space_of_services_counts_for_the_job(beside: Beside, provider: Provider) -> None:
    """Also that of a file that only an open descriptor of the service leads to."""
    connection = beside("one")
    write = "head -c 20M /dev/zero >/srv/kept; exec 9>/srv/gone; rm /srv/gone; head -c 20M /dev/zero >&9; echo written"
    start_services(connection, [sh("one", f"{write}; exec sleep 1000", ready_log="written")])
    until(lambda: provider.disk("with-services").bytes >= 40 << 20, "the space")  # a machine writes it within seconds
    assert provider.disk("with-services").bytes < 80 << 20


@pytest.mark.essential
def test_folder_of_the_job_is_forked_with_its_disk(provider: Provider, host: Host) -> None:
    """Files of the service are there in each fork of the disk, all others of it are gone."""
    services = {"db": IMAGE}
    provider.create(VmSpec("parent", IMAGE, shape=Shape(memory_gb=1), network=False, services=services))
    end = "trap 'echo end >>/data/file; exit' TERM; echo up; sleep 1000 & wait"
    write = f"echo kept >/data/file; echo gone >/root/file; {end}"
    with Vm(provider, "parent").connect() as connection:
        start_services(connection, [sh("db", write, files={"/data": "/srv/db"}, ready_log="up")])
        run(connection, "true")
        output_of(connection, "db")
    Vm(provider, "parent").snapshot("migrated")
    for name in ("first", "second"):
        provider.create(VmSpec(name, IMAGE, "migrated", Shape(memory_gb=1), network=False, services=services))
        with Vm(provider, name).connect() as connection:
            read = "cat /data/file; ls /root; echo more >>/data/file; echo shown; exec sleep 1000"
            start_services(connection, [sh("db", read, files={"/data": "/srv/db"}, ready_log="shown")])
            assert output_of_stopped(connection, "db") == "kept\nend\nshown\n"
        provider.destroy(name)
    assert not list(provider.list())


def output_of_stopped(connection: Connection, name: str) -> str:
    """Return what a service prints until it is ended with a command."""
    run(connection, "true")
    return output_of(connection, name)[0]
