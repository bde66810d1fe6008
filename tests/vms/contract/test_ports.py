"""Ports of a job, as the host reaches them."""

from __future__ import annotations

import pytest

from actors.vms import CommandSpec, PortClosed, PortSocket, open_port, start
from tests.vms.contract.conftest import Boot
from tests.waiting import until

pytestmark = pytest.mark.real

ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
ECHO = """
import socket, sys
family = socket.AF_INET6 if sys.argv[1] == "::1" else socket.AF_INET
with socket.create_server((sys.argv[1], 8000), family=family) as server:
    while True:
        with server.accept()[0] as each:
            while data := each.recv(1 << 16):
                each.sendall(data.upper())
                if b"end" in data:
                    break
"""
SIZE = 1 << 20


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_of_the_job_is_reached(boot: Boot, address: str):
    """A program gets what is sent, and answers; where none listens the port is said to be closed."""
    vm = boot()
    with vm.connect() as connection:
        with pytest.raises(PortClosed, match="nothing takes connections at port 7"):
            open_port(connection, 7, seconds=10)
        start(connection, CommandSpec(f"python3 -c '{ECHO}' {address}", env=ENV))

        def look() -> PortSocket | None:
            try:
                return open_port(connection, 8000, seconds=10)
            except PortClosed:
                return None

        until(look, "a program that listens").close()
        with open_port(connection, 8000, seconds=10) as port:
            port.send(b"x" * SIZE)
            received = b""
            while len(received) < SIZE:
                received += port.read(SIZE)
            assert received == b"X" * SIZE
            port.seconds = 0.1
            with pytest.raises(TimeoutError):
                port.read(1)
            port.seconds = 10
            port.send(b"end")
            assert port.read() == b"END"
