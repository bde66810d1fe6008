"""Malicious pipeline files, and sources that never arrive: each ends in time and leaves nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from actors.vms.host.network import host_addresses
from tests.e2e.archive_server import serving
from tests.e2e.daemon import Build, Client, Daemon
from tests.e2e.renders import another_pipeline, rejected, render_log, rendered
from tests.e2e.sources import HELLO, pipeline_file
from tests.host_server import own_address

SECONDS = 4
LATE = f"render timed out after {SECONDS} s"


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_PARKED": "0",
        "CI_DAEMON_RENDER_VMS": "8",
        "CI_DAEMON_RENDER_TIMEOUT": str(SECONDS),
        "CI_DAEMON_RENDER_FETCH_TIMEOUT": str(SECONDS),
        "CI_DAEMON_RENDER_DISK_GB": "1",
        "CI_DAEMON_SANDBOX_NETWORK_ALLOW": f"{own_address()}/32",
    }


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Client:
    return Client.create(daemon, "mallory@example.org")


ENDLESS = {
    "a loop": "while True: pass",
    "deaf": "import signal, threading\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nthreading.Event().wait()",
    "output": "import os\nwhile True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)",
    "a result": """
import os
for descriptor in range(3, 20):
    try:
        while True: os.write(descriptor, b" " * 65536)
    except OSError:
        pass
""",
}


def test_an_endless_render_is_ended_while_others_are_served(client: Client):
    pipelines = [another_pipeline(client) for _ in ENDLESS]
    sources = [pipeline_file(text) for text in ENDLESS.values()]
    with ThreadPoolExecutor() as threads:
        answers = threads.map(rejected, pipelines, sources)
        assert client.get(f"pipelines/{pipelines[0].slug}")["slug"] == pipelines[0].slug
        assert dict(zip(ENDLESS, answers, strict=True)) == dict.fromkeys(ENDLESS, LATE)
    chatty = pipelines[list(ENDLESS).index("output")]
    assert len(render_log(Build(client, f"pipelines/{chatty.slug}/builds/1"))) == 2**20


LARGE = """
import os
for descriptor in range(3, 20):
    try:
        for _ in range(16 * 16): os.write(descriptor, b" " * 65536)
        os.write(descriptor, b" ")
    except OSError:
        pass
os._exit(0)
"""


def test_a_result_that_is_too_large_is_refused(client: Client):
    message = rejected(another_pipeline(client), pipeline_file(LARGE))
    assert message == "render failed (exit 0): the pipelines come to more than 16777216 bytes"


def test_processes_without_end_are_ended_in_time(client: Client):
    message = rejected(another_pipeline(client), pipeline_file("import os\nwhile True: os.fork()"))
    assert message.startswith("render ")
    client.daemon.wait_until_idle()


FILLS = """
import os
for n in range(9):
    os.posix_fallocate(os.open(f"/var/tmp/{n}", os.O_CREAT | os.O_WRONLY), 0, 1 << 28)
while True: pass
"""


def test_a_disk_that_is_filled_ends_the_render_and_is_free_again(client: Client):
    message = rejected(another_pipeline(client), pipeline_file(FILLS))
    assert message == "render failed: it filled the VM's disk of 1 GB, or the host's disk"
    client.daemon.wait_until_idle()
    left = sum(path.lstat().st_blocks * 512 for path in client.daemon.state.rglob("*"))
    assert left < 2**28


def test_a_source_that_never_comes_is_not_waited_for(client: Client):
    with serving({"/source.tar.gz": None}) as server:
        message = rejected(another_pipeline(client), None, source_url=f"{server.url}/source.tar.gz")
    assert message.startswith("source fetch failed (exit 124): it took longer than ")


SNOOPING = """
import glob, os, re, socket
found = []
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try: found.append(open(path, "rb").read())
    except OSError: pass
for top in ("/tmp", "/var/tmp", "/run", "/root", "/workspace"):
    for folder, _, names in os.walk(top):
        for name in names:
            try: found.append(open(os.path.join(folder, name), "rb").read(1 << 20))
            except OSError: pass
print("tokens", re.findall(rb"(?<![\\w+/-])[\\w-]{43}(?![\\w+/=-])", b" ".join(found)))
listening = []
for line in open("/proc/net/tcp").readlines()[1:]:
    if line.split()[3] == "0A": listening.append(line.split()[1])
print("listening", listening)
for target in TARGETS:
    try: socket.create_connection(target, timeout=1); print("reached", target)
    except OSError as error: pass
"""


def test_pipeline_files_reach_nothing_of_the_service_or_host(daemon: Daemon, client: Client):
    hosts = {str(block.network_address) for block in host_addresses() if block.version == 4} - {own_address()}
    with _listening_everywhere() as port:
        ports = (int(daemon.url.rpartition(":")[2]), port)
        targets = [(host, each) for host in ("127.0.0.1", "10.0.2.2", *hosts) for each in ports]
        build = rendered(another_pipeline(client), pipeline_file(f"TARGETS = {targets}\n{SNOOPING}\n{HELLO}"))
    assert render_log(build).splitlines() == ["tokens []", "listening []"]
    build.cancel()


@contextmanager
def _listening_everywhere() -> Iterator[int]:
    """Listen on all addresses of this host while the block runs; yield the port."""
    with closing(socket.create_server(("0.0.0.0", 0))) as server:
        yield server.getsockname()[1]
