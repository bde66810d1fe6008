"""The terminal of a VM: a shell that outlives connections, what it shows, and what is typed."""

from __future__ import annotations

import pytest

from actors.vms import Connection, Screen, TerminalSpec, VmError, open_terminal, resize, type_in
from tests.vms.contract.conftest import Boot, Vm
from tests.waiting import until

pytestmark = pytest.mark.real

ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM": "xterm-256color", "PS1": "> "}
KEPT = 1 << 18


class Reader:
    """Somebody who looks at a terminal: ``shown`` is what was seen, up to the byte ``end``."""

    def __init__(self, connection: Connection, number: int = 0) -> None:
        self.screen = Screen(connection, number)
        self.shown = b""
        self.end = number
        self.left_out = 0
        self.exit_code: int | None = None

    def reads(self, text: str) -> None:
        """Read until a text was shown."""
        since = 0
        while text.encode() not in self.shown[since:]:
            since = max(0, len(self.shown) - len(text))
            self.read()

    def read(self) -> None:
        part = self.screen.part(60)
        assert part is not None, self.shown[-2000:]
        self.shown += part.data
        self.end, self.exit_code = part.end, part.exit_code
        self.left_out += part.left_out


@pytest.fixture
def vm(boot: Boot) -> Vm:
    return boot()


@pytest.mark.essential
def test_terminal_outlives_its_connection(vm: Vm):
    """Its shell goes on; a later reader sees the rest, and types on where the input ended."""
    with vm.connect() as first:
        open_terminal(first, TerminalSpec({**ENV, "COLOUR": "red"}, columns=101, rows=33))
        reader = Reader(first)
        assert type_in(first, 0, b"stty size; tty; echo $COLOUR-$((6*7)); pwd\n") == 43
        reader.reads("red-42\r\n/workspace\r\n")
        assert "33 101\r\n/dev/pts/" in reader.shown.decode()
        end = reader.end
    with vm.connect() as second:
        open_terminal(second, TerminalSpec())  # as a successor would: nothing is opened twice
        reader = Reader(second, end)
        assert reader.screen.typed == 43
        line = b"pwd\necho $COLOUR; exit 7\n"
        assert type_in(second, 39, line) == 39 + len(line)  # its beginning was typed before
        reader.reads("red\r\n")
        while reader.exit_code is None:
            reader.read()
        assert reader.exit_code == 7
        assert type_in(second, 39 + len(line), b"late") == 39 + len(line) + 4
        assert Screen(second, reader.end).part(60) is not None


def test_resize_and_interrupt_reach_the_programs(vm: Vm):
    with vm.connect() as connection:
        open_terminal(connection, TerminalSpec(ENV))
        reader = Reader(connection)
        program = b"sh -c \"trap 'stty size' WINCH; echo re''ady; while :; do sleep 0.1; done\"\n"
        taken = type_in(connection, 0, program)
        reader.reads("ready\r\n")
        resize(connection, 90, 20)
        reader.reads("20 90\r\n")
        taken = type_in(connection, taken, b"\x03")
        reader.reads("^C")
        type_in(connection, taken, b"echo $((6*7))\n")
        reader.reads("42\r\n")


def test_output_without_end_waits_for_the_reader(vm: Vm):
    """It takes no more memory than is kept; what nobody read in time is counted."""
    with vm.connect() as connection:
        open_terminal(connection, TerminalSpec(ENV))
        taken = type_in(connection, 0, b"yes | head -c 1000000; mknod /tmp/en''d p; cat /tmp/end; yes\n")
        until(lambda: vm.run("test -p /tmp/end")[0] == 0, "the output has ended")
        reader = Reader(connection)
        while len(reader.shown) < KEPT:
            reader.read()
        assert (len(reader.shown), reader.end) == (KEPT, KEPT + reader.left_out)
        vm.says("echo e''nd >/tmp/end")
        reader.reads("end\r\n")
        reader.shown = b""
        reader.reads("y\r\n" * 1000)
        taken = type_in(connection, taken, b"\x03")
        reader.shown = b""
        reader.reads("^C")
        type_in(connection, taken, b"echo $((6*7))\n")
        reader.reads("42\r\n")
        assert reader.left_out < 3_000_000


def test_input_that_nobody_reads_is_bounded(vm: Vm):
    with vm.connect() as connection:
        open_terminal(connection, TerminalSpec(ENV))
        reader = Reader(connection)
        taken = type_in(connection, 0, b"stty -echo -icanon; echo re''ady; sleep 1000\n")
        reader.reads("ready\r\n")
        flood = bytes(50_000)
        for _ in range(4):
            taken = type_in(connection, taken, flood)
        assert taken < 120_000
        assert type_in(connection, taken, flood) == taken
        assert type_in(connection, taken + 1, b"after a gap") == taken


def test_a_terminal_that_is_not_open_takes_nothing(vm: Vm):
    with vm.connect() as connection:
        for use in (lambda: type_in(connection, 0, b"a"), lambda: Screen(connection, 0)):
            with pytest.raises(VmError):
                use()
