from __future__ import annotations

from pathlib import Path

from actors.vms import VmUse
from actors.vms.host.control_groups import measure
from tests.actors.vms.sandbox.conftest import Boot


def test_a_vms_use_is_the_count_of_its_groups(boot: Boot) -> None:
    vm = boot()
    vm.says("python3 -c 'print(sum(range(3000000)))'")
    use = vm.provider.use(vm.id)
    counted = {name for hierarchy in vm.provider.limits.hierarchies for name in hierarchy.controllers}
    assert ((use.memory_bytes or 0) > 2**20) is ("memory" in counted)
    vm.provider.destroy(vm.id)
    assert vm.provider.use(vm.id) == VmUse()


def test_both_versions_are_read_and_missing_counters_are_none(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (tmp_path / "memory.current").write_text("4096\n")
    assert measure([tmp_path]) == VmUse(2.5, 4096)
    old = tmp_path / "old"
    for folder, file, text in (("cpu", "cpuacct.usage", "1500000000\n"), ("memory", "memory.usage_in_bytes", "8192\n")):
        (old / folder).mkdir(parents=True)
        (old / folder / file).write_text(text)
    (old / "cpu" / "cpu.stat").write_text("nr_periods 0\nnr_throttled 0\n")
    assert measure([old / "cpu", old / "memory"]) == VmUse(1.5, 8192)
    assert measure([tmp_path / "gone"]) == VmUse()
