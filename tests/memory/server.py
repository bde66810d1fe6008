"""An SSH server in this process, which passes every command to a guest in memory."""

from __future__ import annotations

import io
import socket
import threading
from contextlib import suppress

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED, OPEN_SUCCEEDED

from tests.memory.guest import Guest


def serve(guest: Guest, host_key: str, authorized_key: str) -> tuple[socket.socket, socket.socket]:
    """Serve one connection; return the sockets of client and server. Shutting down the second ends it.

    ``host_key`` is private, in PEM form; ``authorized_key`` is public, as ``"ecdsa-sha2-nistp256 AAAA..."``.
    """
    client, server = socket.socketpair()
    transport = paramiko.Transport(server)
    transport.add_server_key(paramiko.ECDSAKey.from_private_key(io.StringIO(host_key)))
    transport.start_server(event=threading.Event(), server=_Server(guest, authorized_key, transport))
    return client, server


class _Server(paramiko.ServerInterface):
    """Admits root with the VM's key, and runs commands."""

    def __init__(self, guest: Guest, authorized_key: str, transport: paramiko.Transport) -> None:
        self._guest = guest
        self._transport = transport
        self._authorized_key = authorized_key
        self._accepting = threading.Lock()
        self._channels: dict[int, paramiko.Channel] = {}

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = username == "root" and f"{key.get_name()} {key.get_base64()}" == self._authorized_key
        return AUTH_SUCCESSFUL if known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        if kind == "direct-streamlocal@openssh.com":
            threading.Thread(target=self._converse, args=(chanid,), name="guest-socket", daemon=True).start()
            return OPEN_SUCCEEDED
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def _converse(self, chanid: int) -> None:
        """Serve a channel that the client opens."""
        # These are raised once the client is gone.
        with suppress(OSError, EOFError, paramiko.SSHException), self._opened(chanid) as channel:
            reader = channel.makefile("rb")
            line = reader.readline()
            if not line:
                raise EOFError
            word, number = line.split()
            content = reader.read(int(number)) if word == b"start" else b""
            self._guest.converse(word.decode(), content, int(number), channel)

    def _opened(self, chanid: int) -> paramiko.Channel:
        """Return a channel once it is open: the transport hands out those of sessions too, in their order."""
        with self._accepting:
            while chanid not in self._channels:
                channel = self._transport.accept()
                if channel is None:
                    raise EOFError
                self._channels[channel.get_id()] = channel
            return self._channels.pop(chanid)

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=_run, args=(self._guest, channel, command), name="guest-session", daemon=True).start()
        return True


def _run(guest: Guest, channel: paramiko.Channel, command: bytes) -> None:
    """Run a script of the service."""
    with suppress(OSError, EOFError, paramiko.SSHException), channel:  # raised once the client is gone
        # The client sends the end of stdin after it was told that the command starts: nothing is sent before that.
        stdin = channel.makefile("rb").read()
        channel.send_exit_status(guest.run(command.decode(), stdin, channel))
