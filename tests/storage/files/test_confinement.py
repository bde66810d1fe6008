from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.files import Bounds, Confinement, WorkFailed
from tests.waiting import until

BOUNDS = Bounds(cpu_seconds=1, memory_bytes=64 << 20, seconds=60)


def add(one: int, other: int) -> int:
    return one + other


def spin() -> None:
    while True:
        pass


def sleep() -> None:
    signal.pause()


def eat() -> int:
    return len(bytearray(1 << 30))


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def open_many() -> None:
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(1000)]
    raise AssertionError(opened)


def refuse() -> None:
    message = "not this one"
    raise KeyError(message)


def numbers(most: int) -> Iterator[list[int]]:
    yield from ([number] for number in range(most))


def some_then_end() -> Iterator[int]:
    yield 1
    end()


def too_much_in_parts() -> Iterator[str]:
    while True:
        yield "x" * (1 << 20)


def fill() -> None:
    raise OSError(28, "No space left on device")


def part_then_spin(parts: int) -> Iterator[int]:
    yield from range(parts)
    spin()


def times_warmed() -> int:
    """Return the number of calls of `warm` in this process and those that it is forked from."""
    return len(_warmed)


_warmed: list[int] = []


def warm() -> None:
    _warmed.append(os.getpid())


def wait_for(path: str) -> str:
    Path(f"{path}.begun").touch()
    until(Path(path).exists, "the file", 60)
    return path


@pytest.fixture
def confinement() -> Iterator[Confinement]:
    made = Confinement()
    yield made
    made.close()


def test_a_result_comes_back_and_an_expected_error_is_raised(confinement: Confinement):
    assert confinement.run(add, 1, 2, bounds=BOUNDS, owner="acme") == 3
    with pytest.raises(KeyError, match="not this one"):
        confinement.run(refuse, bounds=BOUNDS, owner="acme", errors=(KeyError,))
    with pytest.raises(OSError, match="No space left") as caught:
        confinement.run(fill, bounds=BOUNDS, owner="acme", errors=(OSError,))
    assert caught.value.errno == 28
    with pytest.raises(WorkFailed, match="KeyError: 'not this one'"):
        confinement.run(refuse, bounds=BOUNDS, owner="acme")


def test_a_long_result_comes_in_parts(confinement: Confinement):
    assert list(confinement.each(numbers, 3, bounds=BOUNDS, owner="acme")) == [[0], [1], [2]]
    for first in confinement.each(numbers, 10**9, bounds=BOUNDS, owner="acme"):
        assert first == [0]
        break
    assert confinement.run(add, 1, 2, bounds=BOUNDS, owner="acme") == 3


def test_parts_that_do_not_end_are_a_failure(confinement: Confinement):
    parts = confinement.each(some_then_end, bounds=BOUNDS, owner="acme")
    assert next(parts) == 1
    with pytest.raises(WorkFailed, match="CPU time"):
        next(parts)
    with pytest.raises(WorkFailed, match="more than 64 MiB"):
        list(confinement.each(too_much_in_parts, bounds=BOUNDS, owner="acme"))


@pytest.mark.parametrize(
    ("work", "why"),
    [(spin, "1 s of CPU time"), (eat, "64 MiB of memory"), (end, "CPU time"), (open_many, "Too many open files")],
)
def test_a_work_that_takes_too_much_ends_and_others_go_on(confinement: Confinement, work: object, why: str):
    with pytest.raises(WorkFailed, match=why):
        confinement.run(work, bounds=BOUNDS, owner="acme")  # type: ignore[arg-type]
    assert confinement.run(add, 1, 2, bounds=BOUNDS, owner="acme") == 3


def test_a_work_that_takes_too_long_ends(confinement: Confinement):
    with pytest.raises(WorkFailed, match="1 s in all"):
        confinement.run(sleep, bounds=Bounds(cpu_seconds=60, memory_bytes=64 << 20, seconds=1), owner="acme")


def test_what_follows_the_first_part_has_bounds_of_its_own(confinement: Confinement):
    parts = confinement.each(
        part_then_spin, 1, bounds=Bounds(cpu_seconds=60, memory_bytes=64 << 20, seconds=60), rest=BOUNDS, owner="acme"
    )
    assert next(parts) == 0
    with pytest.raises(WorkFailed, match="1 s of CPU time"):
        next(parts)
    wider = Bounds(cpu_seconds=60, memory_bytes=64 << 20, seconds=60)
    with pytest.raises(WorkFailed, match="60 s of CPU time"):  # its own ended it, which are lower
        list(confinement.each(part_then_spin, 1, bounds=BOUNDS, rest=wider, owner="acme"))


def test_a_warm_fork_does_the_next_work(confinement: Confinement):
    """The first one finds none; the zygote is warm after it, and of each later fork itself."""
    warmed = [confinement.run(times_warmed, bounds=BOUNDS, owner="acme") for _ in range(3)]
    assert warmed == [0, 2, 2]
    with pytest.raises(WorkFailed, match="64 MiB of memory"):
        confinement.run(eat, bounds=BOUNDS, owner="acme")
    assert confinement.run(add, 1, 2, bounds=BOUNDS, owner="acme") == 3


def test_works_share_the_session_of_the_service(confinement: Confinement):
    """Their lower priority would not count against it in another one, where the kernel groups by session."""
    assert confinement.run(os.getsid, 0, bounds=BOUNDS, owner="acme") == os.getsid(0)
    assert confinement.run(os.getpriority, 0, 0, bounds=BOUNDS, owner="acme") >= os.getpriority(0, 0) + 5


def test_a_zygote_that_was_killed_is_replaced(confinement: Confinement):
    assert confinement.run(os.getppid, bounds=BOUNDS, owner="acme") != os.getpid()
    zygote = confinement.run(os.getppid, bounds=BOUNDS, owner="acme")
    os.kill(zygote, signal.SIGKILL)
    os.waitid(os.P_PID, zygote, os.WEXITED | os.WNOWAIT)
    assert confinement.run(os.getppid, bounds=BOUNDS, owner="acme") != zygote


def test_works_end_with_the_service(tmp_path: Path):
    path = str(tmp_path / "work")
    program = (
        "from storage.files import Bounds, Confinement\n"
        "from tests.storage.files.test_confinement import wait_for\n"
        f"Confinement().run(wait_for, {path!r}, bounds=Bounds(60, 64 << 20, 60), owner='acme')"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as service:
        until(Path(f"{path}.begun").exists, "the work")
        service.kill()
        assert service.stderr is not None
        assert service.stderr.read() == ""  # it ends when the last process does


def test_an_owner_waits_for_its_own_works_alone(confinement: Confinement, tmp_path: Path):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    bounds, done = Bounds(cpu_seconds=60, memory_bytes=64 << 20, seconds=60), list[str]()

    def work(path: str) -> None:
        done.append(confinement.run(wait_for, path, bounds=bounds, owner="acme"))

    threads = [threading.Thread(target=work, args=(path,)) for path in (first, second)]
    for thread in threads:
        thread.start()
        if thread is threads[0]:
            until(Path(f"{first}.begun").exists, "the first work")
    assert confinement.run(add, 1, 2, bounds=BOUNDS, owner="other") == 3
    assert not Path(f"{second}.begun").exists()
    Path(second).touch()
    Path(first).touch()
    for thread in threads:
        thread.join(60)
    assert done == [first, second]


def test_a_zygote_finds_what_the_service_imports_through_site(
    monkeypatch: pytest.MonkeyPatch, confinement: Confinement
):
    """A checkout that is installed as editable is on no path, but found by a hook of site-packages."""
    monkeypatch.setattr("sys.path", [each for each in sys.path if not (Path(each) / "storage").is_dir()])
    assert confinement.run(os.getppid, bounds=BOUNDS, owner="acme") != os.getpid()
