"""Lists and tars of a disk's files, which a job may have forged."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.forks.files import DiskEntry, FileRefused, folder_of, write_tar
from storage import Masker

SECRET = "hunter2-and-more"
HIDING = Masker.hiding([SECRET])
Member = tuple[str, bytes | str, bytes]


def tar_of(*members: Member, forge: Callable[[tarfile.TarInfo], None] = lambda _: None) -> bytes:
    """Make a tar of files by path, type and content; those of links have their target for it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, kind, content in members:
            info = tarfile.TarInfo(path)
            info.type = kind if isinstance(kind, bytes) else tarfile.REGTYPE
            info.linkname = content.decode() if info.type in {tarfile.SYMTYPE, tarfile.LNKTYPE} else ""
            info.size = len(content) if info.type == tarfile.REGTYPE else 0
            forge(info)
            tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


def taken(tar: bytes) -> dict[str, bytes]:
    """Return the files of what is made of a tar, in pieces that come as they like; all are regular."""
    made = io.BytesIO()
    write_tar((tar[at : at + 700] for at in range(0, len(tar), 700)), made, "out", HIDING)
    made.seek(0)
    with tarfile.open(fileobj=made) as read:
        assert all(each.isreg() or each.islnk() for each in read)
        return {each.name: (read.extractfile(each) or io.BytesIO()).read() for each in read}


def test_a_folder_is_its_regular_files_without_secrets():
    tar = tar_of(
        ("./a", tarfile.REGTYPE, f"1 {SECRET} 2".encode()),
        ("./b/c", tarfile.REGTYPE, b"x" * 5000),
        ("./twin", tarfile.LNKTYPE, b"./a"),
        ("./link", tarfile.SYMTYPE, b"/etc/passwd"),
        ("./device", tarfile.CHRTYPE, b""),
        ("./pipe", tarfile.FIFOTYPE, b""),
        (f"./{SECRET}", tarfile.REGTYPE, b""),
    )
    expected = {"out/a": b"1 *** 2", "out/b/c": b"x" * 5000, "out/twin": b"1 *** 2", "out/***": b""}
    assert taken(tar) == expected


@pytest.mark.parametrize("path", ["/etc/cron.d/x", "../x", "a/../../x", "a//b", "a/./b"])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.LNKTYPE])
def test_a_path_that_leads_out_is_refused(path: str, kind: bytes):
    member: Member = (path, kind, b"") if kind == tarfile.REGTYPE else ("a", kind, path.encode())
    with pytest.raises(FileRefused, match="leads out of the folder"):
        taken(tar_of(member))


def test_a_file_that_comes_twice_is_refused():
    with pytest.raises(FileRefused, match="twice"):
        taken(tar_of(("a", tarfile.REGTYPE, b"1"), ("a", tarfile.REGTYPE, b"2")))


def test_a_tar_of_too_many_or_too_large_files_is_refused():
    with pytest.raises(FileRefused, match="more than 256 MiB or 10,000 files"):
        taken(tar_of(*((str(number), tarfile.REGTYPE, b"") for number in range(10_001))))
    claims = tar_of(("bomb", tarfile.REGTYPE, b""), forge=lambda info: setattr(info, "size", 0))
    header = bytearray(claims[:512])
    header[124:136] = b"77777777777\0"
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    with pytest.raises(FileRefused, match="more than 256 MiB"):
        taken(bytes(header))


def test_what_is_no_tar_is_refused():
    with pytest.raises(FileRefused, match="invalid tar"):
        taken(b"no tar" * 1000)
    with pytest.raises(FileRefused, match="ends in the middle"):
        taken(tar_of(("a", tarfile.REGTYPE, b"x" * 5000))[:2000])


def test_a_list_has_folders_first_and_no_secrets():
    output = b"fb\0da\0lc\0f%s\0" % SECRET.encode() + b"4\0" + b"7\n4096\n3\n8\n"
    folder = folder_of("out", output, HIDING, before=True)
    assert folder.entries == (
        DiskEntry("a", "folder", None),
        DiskEntry("***", "file", 8),
        DiskEntry("b", "file", 7),
        DiskEntry("c", "link", None),
    )
    assert (folder.path, folder.before, folder.cut) == ("out", True, False)
    assert folder_of("out", b"fb\x002\0", HIDING, before=False).cut


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"x",
        b"f../x\x001\0",
        b"f..\x001\0",
        b"f\x001\0",
        b"zname\x001\0",
        b"f" + b"n" * 256 + b"\x001\0",
        b"fa\0-1\0",
        b"fa\0" * 1001 + b"1001\0",
    ],
)
def test_what_is_no_list_is_refused(output: bytes):
    with pytest.raises(FileRefused, match="no list"):
        folder_of("out", output, HIDING, before=False)


@given(
    output=st.binary(max_size=200)
    | st.lists(st.sampled_from([b"f", b"d", b"\0", b"a", b"1", b"\n", b"/"])).map(b"".join)
)
def test_any_bytes_are_a_list_or_refused(output: bytes):
    try:
        folder = folder_of("out", output, HIDING, before=False)
    except FileRefused:
        return
    assert all("/" not in each.name and each.name not in {"", ".", ".."} for each in folder.entries)
