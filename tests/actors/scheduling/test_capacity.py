from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.scheduling.capacity import Capacity, Load
from storage import Shape

shapes = st.builds(Shape, st.integers(1, 64), st.integers(1, 512), st.integers(1, 999))
caps = st.one_of(st.just(0), st.integers(1, 1000))
capacities = st.builds(Capacity, caps, caps, caps, caps)
RESOURCES = ("vms", "cpu", "memory_gb", "disk_gb")


def within(capacity: Capacity, load: Load) -> bool:
    return all(not getattr(capacity, of) or getattr(load, of) <= getattr(capacity, of) for of in RESOURCES)


@given(capacities, st.lists(shapes, min_size=1), shapes)
def test_a_vm_fits_exactly_where_no_cap_is_passed(capacity: Capacity, there: list[Shape], shape: Shape):
    load = Load.of(there)
    shortage = capacity.shortage(load, shape)
    assert (shortage is None) == within(capacity, load.plus(shape))
    if shortage is not None:
        assert shortage.taken == getattr(load, shortage.of)
        assert shortage.taken + shortage.wanted > shortage.cap == getattr(capacity, shortage.of)


@given(capacities, shapes)
def test_alone_a_vm_of_any_shape_fits(capacity: Capacity, shape: Shape):
    assert capacity.shortage(Load(), shape) is None


@given(capacities, st.lists(shapes, max_size=20))
def test_grants_never_exceed_a_cap_except_with_a_single_vm(capacity: Capacity, asked: list[Shape]):
    load = Load()
    for shape in asked:
        if capacity.shortage(load, shape) is None:
            load = load.plus(shape)
    assert load.vms <= 1 or within(capacity, load)


def test_figures_name_what_is_short():
    load = Load.of([Shape(4, 8, 20), Shape(2, 8, 20)])
    assert str(Capacity(vms=2).shortage(load, Shape())) == "2 of 2 VMs"
    assert str(Capacity(cpu=8).shortage(load, Shape(3, 1, 1))) == "6 of 8 vCPUs"
    assert str(Capacity(memory_gb=16).shortage(load, Shape())) == "16 of 16 GB of memory"
    assert str(Capacity(disk_gb=50).shortage(load, Shape())) == "40 of 50 GB of disk"
