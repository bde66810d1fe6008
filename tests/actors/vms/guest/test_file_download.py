from __future__ import annotations

import io
import itertools
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.vms import Connection, InvalidDownload, download_files, list_below, list_files
from actors.vms.guest.file_download import TarReader
from tests.actors.vms.commands import TIMEOUT, run_in_job
from tests.actors.vms.conftest import Vm

ROOM = 2**24


def tar(*files: tuple[str, bytes], dialect: int = tarfile.GNU_FORMAT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=dialect) as archive:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def special(name: str, kind: bytes, target: str = "", size: int = 0) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size
    return info.tobuf(tarfile.GNU_FORMAT)


def split(data: bytes, *sizes: int) -> Iterator[bytes]:
    stream = io.BytesIO(data)
    for size in itertools.cycle(sizes):
        if not (chunk := stream.read(size)):
            return
        yield chunk


def read(data: bytes, *sizes: int) -> dict[str, bytes | str]:
    """Return the files of a tar: contents by path, or for a hard link the path of the same file."""
    found: dict[str, bytes | str] = {}
    for file in TarReader(split(data, *(sizes or (4096,)))).files():
        found[file.path] = file.same_as or b"".join(file.chunks)
    return found


names = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=300).filter(
    lambda name: not name.endswith("/") and name not in {".", ".."}
)


class TestReading:
    @given(
        st.dictionaries(names, st.binary(max_size=2000), max_size=5),
        st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
        st.lists(st.integers(1, 3000), min_size=1, max_size=5),
    )
    def test_a_tar_of_any_format_and_block_size_gives_its_files(
        self, files: dict[str, bytes], dialect: int, sizes: list[int]
    ):
        assert read(tar(*(("./" + name, content) for name, content in files.items()), dialect=dialect), *sizes) == files

    def test_tars_in_a_row_are_read_as_one(self):
        assert read(tar(("a", b"1")) + tar(("b", b"2"))) == {"a": b"1", "b": b"2"}

    def test_only_files_and_hard_links_are_taken_from_a_tar(self):
        others = b"".join(special(kind.hex(), kind) for kind in (b"2", b"3", b"4", b"5", b"6", b"Z"))
        holding = special("sparse", tarfile.GNUTYPE_SPARSE, size=600) + bytes(1024)
        link = special("./to/hard", tarfile.LNKTYPE, "./to/this")
        assert read(others + holding + link + tar(("last", b"x"))) == {"to/hard": "to/this", "last": b"x"}

    def test_unread_parts_of_a_file_are_skipped(self):
        data = tar(("a", b"x" * 100_000), ("b", b"y"))
        files = []
        for file in TarReader(split(data, 1000)).files():
            next(file.chunks)
            files.append(file.path)
        assert files == ["a", "b"]

    @pytest.mark.parametrize("cut", [1, 511, 513, 600, 1023])
    def test_a_tar_that_ends_in_the_middle_is_not_whole(self, cut: int):
        with pytest.raises(InvalidDownload, match="in the middle"):
            read(tar(("a", b"x" * 100))[:cut])

    @pytest.mark.parametrize(
        ("data", "why"),
        [
            (b"tar: command not found\n".ljust(512), "invalid tar"),
            (special("././@LongLink", tarfile.GNUTYPE_LONGNAME, size=2**40), "too long"),
            (special("x", tarfile.XHDTYPE, size=2**33), "too long"),
            (special("x", tarfile.XHDTYPE, size=9) + b"99 path=a".ljust(512), "cannot be read"),
            (special("x", tarfile.XHDTYPE, size=9) + b"-3 path=a".ljust(512), "cannot be read"),
            (special("x", tarfile.XHDTYPE, size=9) + b"0 path=aa".ljust(512), "cannot be read"),
        ],
    )
    def test_an_invalid_tar_is_refused(self, data: bytes, why: str):
        with pytest.raises(InvalidDownload, match=why):
            read(data)

    @given(st.binary(max_size=3000), st.integers(0, 1500), st.integers(1, 700))
    @settings(max_examples=300)
    def test_any_bytes_are_files_or_refused(self, noise: bytes, place: int, size: int):
        good = tar(("a", b"x" * 600), ("b" * 150, b"y"))
        for data in (noise, good[:place] + noise + good[place + len(noise) :]):
            with suppress(InvalidDownload):
                read(data, size)

    def test_a_file_without_an_end_takes_no_memory(self):
        header = special("huge", tarfile.REGTYPE, size=2**40)
        chunks = itertools.chain([header], itertools.repeat(bytes(2**16)))
        (file,) = itertools.islice(TarReader(chunks).files(), 1)
        tracemalloc.start()
        try:
            for _ in itertools.islice(file.chunks, 1000):
                pass
            assert tracemalloc.get_traced_memory()[1] < 2**20
        finally:
            tracemalloc.stop()


class TestInAVm:
    def test_listed_files_can_be_packed(self, connection: Connection):
        made = "cd /workspace; mkdir -p d 'e f'; echo 1 >d/a; echo 2 >'e f/-ü\nz'; : >empty; ln -s d link; mkfifo pipe"
        run_in_job(connection, made)
        listed = {each.path.decode(): (each.kind, each.target) for each in list_files(connection, timeout=TIMEOUT)}
        paths = sorted(path for path, (kind, _) in listed.items() if kind == "f")
        assert paths == ["d/a", "e f/-ü\nz", "empty"]
        assert {path: listed[path] for path in set(listed) - set(paths)} == {"link": ("l", b"d"), "pipe": ("p", b"")}
        below = list_below(connection, [b"d", b"e f", b"gone"], deep=False, timeout=TIMEOUT)
        assert [(each.path, each.kind) for each in below] == [(b"d", "d"), (b"e f", "d")]
        below = list_below(connection, [b"d", b"e f"], deep=True, timeout=TIMEOUT)
        assert [each.path.decode() for each in below] == paths[:2]
        packed = {
            file.path: b"".join(file.chunks)
            for file in download_files(connection, paths, max_bytes=ROOM, timeout=TIMEOUT)
        }
        assert packed == {"d/a": b"1\n", "e f/-ü\nz": b"2\n", "empty": b""}

    def test_more_names_than_one_command_takes_are_no_limit(self, connection: Connection):
        names = [f"{number:04d}{'x' * 240}" for number in range(3000)]
        script = (
            "cd /workspace && x=$(printf %0240d 0 | tr 0 x) && seq -f '%04.0f' 0 2999 | while read n; do : >$n$x; done"
        )
        run_in_job(connection, script)
        assert sorted(each.path.decode() for each in list_files(connection, timeout=TIMEOUT)) == names
        assert [file.path for file in download_files(connection, names, max_bytes=ROOM, timeout=TIMEOUT)] == names

    def test_a_missing_file_is_reported_after_the_existing_ones(self, connection: Connection):
        run_in_job(connection, "echo x >/workspace/there")
        files = download_files(connection, ["gone", "there"], max_bytes=ROOM, timeout=TIMEOUT)
        assert next(files).path == "there"
        with pytest.raises(InvalidDownload, match="gone"):
            next(files)

    def test_an_empty_workspace_and_a_removed_one_have_no_files(self, connection: Connection):
        assert list(list_files(connection, timeout=TIMEOUT)) == []
        run_in_job(connection, "rmdir /workspace")
        assert list(list_files(connection, timeout=TIMEOUT)) == []

    def test_a_workspace_that_is_a_link_stays_in_the_vm(self, connection: Connection):
        run_in_job(connection, "rmdir /workspace; mkdir /other; echo x >/other/f; ln -s /other /workspace")
        assert [each.path for each in list_files(connection, timeout=TIMEOUT)] == [b"f"]

    @pytest.mark.parametrize("tool", ["find", "xargs", "tar", "sh", "mount"])
    def test_programs_of_the_job_are_not_used(self, make_vm: Callable[[], Vm], tool: str):
        swap = f"cat >/usr/bin/new && chmod +x /usr/bin/new && mv /usr/bin/new $(command -v {tool})"
        with make_vm().connect() as connection:
            run_in_job(connection, "echo x >/workspace/f")
            assert run_in_job(connection, swap, b"#!/bin/false\n").exit_code == 0
            assert [each.path for each in list_files(connection, timeout=TIMEOUT)] == [b"f"]
            files = list(download_files(connection, ["f"], max_bytes=ROOM, timeout=TIMEOUT))
            assert [file.path for file in files] == ["f"]
