"""VMs of images that have nothing but a shell.

All else that the service does in them comes from its base image.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.vms import (
    CommandSpec,
    CommandState,
    Connection,
    Exited,
    ImageStore,
    SandboxProvider,
    VmSpec,
    download_files,
    follow,
    inspect,
    list_files,
    start,
    terminate,
    update_workspace,
    write_source_manifest,
)
from actors.vms.host import IdMap, run_mapped
from storage import SystemClock
from tests.actors.vms.commands import TIMEOUT, ended, run_in_job
from tests.actors.vms.conftest import IMAGE
from tests.actors.vms.sandbox.conftest import Host
from tests.e2e.sources import archive
from tests.registry import busybox, only_a_shell

Opened = Callable[[], SandboxProvider]


@pytest.fixture(params=[busybox, only_a_shell])
def opened(
    request: pytest.FixtureRequest, host: Host, image_store: ImageStore, tmp_path: Path, idmap: IdMap
) -> Iterator[Opened]:
    """Open a provider, as each process does, whose image "small" is one of the smallest."""
    store = ImageStore(tmp_path / "images", idmap)
    store.import_("small", io.BytesIO(request.param()))

    class Both:
        def path(self, name: str) -> Path:
            return (image_store if name == IMAGE else store).path(name)

    def provider() -> SandboxProvider:
        host.opened.append(SandboxProvider(host.folder, Both(), idmap, SystemClock()))
        return host.opened[-1]

    yield provider
    run_mapped(["rm", "-rf", "images"], idmap=idmap.with_caller(), cwd=tmp_path)


@pytest.fixture
def vm(opened: Opened, host: Host) -> str:
    """The name of a VM of the image."""
    opened().create(VmSpec(host.name(), "small", network=False))
    return next(iter(host.names))


def connect(provider: SandboxProvider, vm: str) -> Connection:
    return Connection(provider.connect(vm), SystemClock())


def test_without_bash_a_strict_command_ends_at_its_first_failure(opened: Opened, vm: str) -> None:
    with connect(opened(), vm) as connection:
        following = start(connection, CommandSpec("echo begun\nfalse\necho done", strict=True))
        assert b"".join(following) == b"begun\n"
        assert following.exited is not None
        assert following.exited.exit_code == 1


def test_it_builds_keeps_its_disk_and_is_taken_up_again(opened: Opened, host: Host, vm: str, tmp_path: Path) -> None:
    packed, manifest = tmp_path / "source.tar.gz", tmp_path / "manifest"
    packed.write_bytes(archive({"hello": "hello\n", "deep/er": "x"}))
    write_source_manifest(packed, manifest, max_bytes=1 << 20)
    with connect(opened(), vm) as connection:
        update_workspace(connection, packed, manifest, time=0)
        command = "read word <hello; echo $word $NOTE; echo made >deep/made; while [ ! -e go ]; do :; done; echo over"
        following = start(connection, CommandSpec(command, env={"NOTE": "a  b"}))
        assert next(iter(following)) == b"hello a b\n"
        assert inspect(connection) is CommandState.RUNNING
    restarted = opened()
    with connect(restarted, vm) as connection:
        assert run_in_job(connection, "echo $$ >/workspace/go; : </dev/null").exit_code == 0
        assert b"".join(follow(connection, offset=10)) == b"over\n"
        assert ended(connection) == Exited(0, 15, truncated=False)
        paths = sorted(each.path.decode() for each in list_files(connection, timeout=TIMEOUT))
        assert paths == ["deep/er", "deep/made", "go", "hello"]
        files = download_files(connection, ["deep/made"], max_bytes=100, timeout=TIMEOUT)
        assert [(file.path, b"".join(file.chunks)) for file in files] == [("deep/made", b"made\n")]
    taken, fork = host.name(), host.name()
    restarted.snapshot(vm, taken)
    restarted.destroy(vm)
    restarted.create(VmSpec(fork, "small", taken, network=True))
    with connect(restarted, fork) as connection:
        start(connection, CommandSpec("read word <deep/made; echo $word"))
        assert b"".join(follow(connection)) == b"made\n"


def test_its_command_is_ended_and_may_clean_up(opened: Opened, vm: str) -> None:
    with connect(opened(), vm) as connection:
        following = start(connection, CommandSpec("trap 'echo bye; exit 3' TERM; echo up; while :; do :; done"))
        chunks = iter(following)
        assert next(chunks) == b"up\n"
        terminate(connection)
        assert b"".join(chunks) == b"bye\n"
        assert ended(connection).exit_code == 3


def test_its_command_ends_at_its_timeout(opened: Opened, vm: str) -> None:
    with connect(opened(), vm) as connection:
        start(connection, CommandSpec("trap '' TERM; while :; do :; done", seconds=0.2, grace=0.2))
        assert ended(connection) == Exited(137, 0, truncated=False, timed_out=True)
