"""Connections to sockets in a VM."""

from __future__ import annotations

import threading

import pytest

from actors.vms import Connection, ConnectionLost
from tests.actors.vms.conftest import Vm

LONG = 600.0
SOCKET = "/run/ci-daemon/supervisor"


def test_no_socket_is_awaited_on_a_connection_that_was_closed(connection: Connection):
    connection.close()
    with pytest.raises(ConnectionLost):
        connection.open_socket(SOCKET, timeout=LONG)


def test_a_socket_is_not_awaited_longer_than_its_connection(vm: Vm):
    with vm.connect() as connection, vm.connect() as other:
        session = connection.run("echo $PPID", timeout=LONG).stdout.decode().strip()
        other.run(f"kill -STOP {session}", timeout=LONG)
        closing = threading.Timer(0.3, connection.close)
        closing.start()
        with pytest.raises(ConnectionLost):
            connection.open_socket(SOCKET, timeout=LONG)
        closing.join()
