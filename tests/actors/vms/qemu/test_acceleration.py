"""KVM, which nothing but a boot within a second proves.

Programs stand for QEMU, because few hosts of tests have KVM.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.vms.host import BootFiles, IdMap, run_mapped
from actors.vms.host.boot import TRIAL
from actors.vms.launcher.words import READY
from actors.vms.qemu import find_accelerator, require_program
from actors.vms.qemu.program import trial
from tests.machines import unpacked_kernel

Program = Callable[[str], str]


@pytest.fixture
def boot(tmp_path: Path) -> BootFiles:
    return BootFiles.make(tmp_path / "boot", unpacked_kernel())


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A device that everybody may use, as far as one can see."""
    device = tmp_path / "kvm"
    device.touch()
    device.chmod(0o666)
    return device


@pytest.fixture
def program() -> Iterator[Program]:
    """Make a program of a shell line, which the ids of VMs can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)

    def make(line: str) -> str:
        made = folder / "qemu"
        made.write_text(f"#!/bin/sh\n{line}\n")
        made.chmod(0o755)
        return str(made)

    yield make
    shutil.rmtree(folder)


def test_a_boot_that_says_so_within_a_second_proves_it(program: Program, boot: BootFiles, idmap: IdMap, device: Path):
    found = find_accelerator(program(f"echo '{READY.decode()}'"), boot, idmap, device)
    assert found.kvm, found.why
    assert found.why.startswith("a machine boots under KVM in 0.")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("exec sleep 60", "longer than 1 s"),
        ("echo no KVM for you >&2; exit 1", "no machine boots under KVM here: .*no KVM for you"),
        ("echo 'Kernel panic'", "ended before it had booted"),
    ],
)
def test_a_device_without_such_a_boot_proves_nothing(
    program: Program, boot: BootFiles, idmap: IdMap, device: Path, line: str, why: str
):
    """A guest may crawl, be refused, or crash."""
    found = find_accelerator(program(line), boot, idmap, device)
    assert not found.kvm
    assert re.search(why, found.why), found.why


def test_a_device_that_is_missing_or_closed_is_named(program: Program, boot: BootFiles, idmap: IdMap, device: Path):
    """The closed one with what opens it."""
    well = program(f"echo '{READY.decode()}'")
    device.chmod(0o660)
    found = find_accelerator(well, boot, idmap, device)
    assert (found.kvm, found.why.partition("run ")[2]) == (False, f"`sudo chmod 0666 {device}`")
    device.unlink()
    found = find_accelerator(well, boot, idmap, device)
    assert (found.kvm, found.why.partition(":")[0]) == (False, f"{device} is missing")


def test_the_machine_of_the_trial_says_that_it_is_ready_and_ends(boot: BootFiles, idmap: IdMap):
    """A real one, whose processor is emulated."""
    files = [os.open(path, os.O_RDONLY) for path in (boot.kernel, boot.initramfs)]
    try:
        argv = trial(require_program(), files[0], files[1], TRIAL, kvm=False)
        assert READY in run_mapped(argv, idmap=idmap, cwd=Path("/"), pass_fds=files, timeout=600)
    finally:
        for each in files:
            os.close(each)
