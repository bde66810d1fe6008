"""A service that may not make VMs itself asks a broker, a process that does nothing else."""

from __future__ import annotations

import contextlib
import marshal
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms import ImageStore, sandbox
from actors.vms.host import IdMap, run_mapped
from actors.vms.host.ids import MappedProgramFailed
from actors.vms.host.zygote import Zygote
from actors.vms.launcher import broker
from actors.vms.launcher.broker import BROKER_VARIABLE, launcher_argv
from actors.vms.qemu.disks import ImageDisks
from tests.actors.vms.sandbox.conftest import Boot, Host
from tests.processes import ended
from tests.waiting import until

FORMER = """
import importlib.util, sys
path, here, address = sys.argv[1:]
spec = importlib.util.spec_from_file_location("broker", path)
broker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(broker)
def argv_of(program, arguments):
    if program == "enter":
        return [sys.executable, "-I", "-S", f"{here}/enter.py", *arguments]
    run = f"import os, sys; sys.path[:0] = [{here!r}]; from launcher.{program} import main; os._exit(main())"
    return [sys.executable, "-I", "-S", "-c", run]
broker.argv_of = argv_of
broker.serve(address)
"""
"""An earlier release's broker: it starts programs where that release had them."""


@pytest.fixture
def former_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    address = str(tmp_path / "former")
    own_mounts = ["unshare", "--mount"] if os.geteuid() == 0 else []
    here = str(Path(sandbox.__file__).parent)
    argv = [*own_mounts, sys.executable, "-I", "-S", "-c", FORMER, broker.__file__, here, address]
    with ended(subprocess.Popen(argv)):
        until(lambda: Path(address).exists(), "the broker's socket")
        monkeypatch.setenv(BROKER_VARIABLE, address)
        yield


@pytest.mark.usefixtures("former_broker")
def test_a_broker_of_before_an_upgrade_makes_vms(host: Host, boot: Boot) -> None:
    vm = boot()
    snapshot = host.name()
    vm.says("echo kept > /workspace/file")
    vm.provider.snapshot(vm.id, snapshot)
    fork = boot(snapshot=snapshot)
    assert fork.says("cat /workspace/file") == "kept"
    for each in (fork, vm):
        vm.provider.destroy(each.id)
    vm.provider.remove_snapshot(snapshot)


def test_a_unit_of_before_an_upgrade_finds_its_broker(tmp_path: Path) -> None:
    """Its path is the former one until the units are installed anew."""
    address = tmp_path / "address"
    program = Path(sandbox.__file__).with_name("broker.py")
    with ended(subprocess.Popen([sys.executable, "-I", "-S", str(program), str(address)])):
        until(address.exists, "the broker's socket")


def test_a_vm_is_made_frozen_and_freed_by_the_starter(host: Host, boot: Boot, broker_address: str) -> None:
    vm = boot(network=True)
    assert vm.says("echo well; sleep 0 | cat") == "well"
    assert vm.provider.disk(vm.id).bytes > 0
    snapshot = host.name()
    vm.says("echo kept > /workspace/file")
    vm.provider.snapshot(vm.id, snapshot)
    fork = boot(snapshot=snapshot)
    assert fork.says("cat /workspace/file") == "kept"
    for each in (fork, vm):
        vm.provider.destroy(each.id)
    vm.provider.remove_snapshot(snapshot)


def test_the_disk_of_an_image_for_machines_is_made_by_the_broker(
    broker_address: str, idmap: IdMap, image_store: ImageStore, tmp_path: Path
) -> None:
    """It mounts the image's tree, and so must not reach it by a folder of the service's mount namespace."""
    tmp_path.chmod(0o700)
    zygote = Zygote()
    try:
        ImageDisks(tmp_path / "disks", image_store, idmap, zygote).path("debian:12")
    finally:
        zygote.close()


def test_programs_get_the_callers_descriptors_and_folder(broker_address: str, idmap: IdMap, tmp_path: Path) -> None:
    """The caller gets their status."""
    read, write = os.pipe()
    os.write(write, b"from below")
    os.close(write)
    script = f"stat -L -c %i /proc/self/cwd; cat; cat <&{read}"
    with (tmp_path / "input").open("w+b") as given:
        given.write(b"given ")
        given.seek(0)
        printed = run_mapped(["bash", "-c", script], idmap=idmap, cwd=tmp_path, stdin=given, pass_fds=[read])
    os.close(read)
    assert printed.decode() == f"{tmp_path.stat().st_ino}\ngiven from below"
    with pytest.raises(MappedProgramFailed, match=r"(?s)failed with status 3: .*aside"):
        run_mapped(["sh", "-c", "echo aside >&2; exit 3"], idmap=idmap, cwd=tmp_path)


def test_a_program_ends_with_its_caller(broker_address: str, idmap: IdMap, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    argv = launcher_argv(
        "enter", *(str(extents[0]) for extents in (idmap.uids, idmap.gids)), "sh", "-c", "echo $$; sleep 300"
    )
    with mark.open("wb") as out, ended(subprocess.Popen(argv, stdout=out, stdin=subprocess.DEVNULL)) as asking:
        pid = int(until(lambda: mark.read_text().strip(), "the program's start"))
        assert "sleep" not in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
        asking.kill()
    until(lambda: not Path(f"/proc/{pid}").exists(), "the program's end")


@pytest.mark.parametrize("program", ["sh", "main.py", "../x"])
def test_no_other_program_is_started(broker_address: str, program: str) -> None:
    done = subprocess.run(
        launcher_argv(program, "-c", "id"), capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout) == (broker.FAILED, b"")


def test_the_callers_environment_is_not_passed_on(broker_address: str, idmap: IdMap, tmp_path: Path) -> None:
    argv = launcher_argv("enter", *(str(extents[0]) for extents in (idmap.uids, idmap.gids)), "env")
    printed = subprocess.run(
        argv, env={"LD_PRELOAD": "evil.so"}, stdout=subprocess.PIPE, check=True, cwd=tmp_path
    ).stdout
    assert b"evil" not in printed


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_other_users_are_not_listened_to(broker_address: str) -> None:
    Path(broker_address).chmod(0o666)
    Path(broker_address).parent.chmod(0o755)
    pid = os.fork()
    if pid == 0:
        os.chdir(Path(broker_address).parent)
        os.setresuid(65534, 65534, 65534)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect("broker")
            answer = b""
            with contextlib.suppress(ConnectionError):
                socket.send_fds(asking, [marshal.dumps(("enter", ["0 65534 1", "0 65534 1", "id"], []))], [0])
                answer = asking.recv(1)
            os._exit(len(answer))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_missing_broker_is_reported_with_the_remedy(
    idmap: IdMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BROKER_VARIABLE, str(tmp_path / "nobody"))
    with pytest.raises(MappedProgramFailed, match="`systemctl restart ci-daemon-vms`"):
        run_mapped(["true"], idmap=idmap, cwd=tmp_path)
