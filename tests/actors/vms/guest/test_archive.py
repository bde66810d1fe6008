from __future__ import annotations

import gzip
import hashlib
import io
import random
import tarfile
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.vms import Connection, SourceError, in_workspace, write_source_manifest, write_source_manifest_confined
from actors.vms import update_workspace as lay
from storage.files import Confinement
from tests.actors.vms.commands import TIMEOUT, run_in_job

ROOM = 10 << 20
HELLO = ("src/hello.txt", b"hello")
KINDS = {"link": tarfile.SYMTYPE, "hard link": tarfile.LNKTYPE, "folder": tarfile.DIRTYPE}
SPECIAL = {"device": tarfile.CHRTYPE, "disk": tarfile.BLKTYPE, "FIFO": tarfile.FIFOTYPE, "unknown": b"Z"}


def member(name: str, kind: str, target: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = {**KINDS, **SPECIAL}.get(kind, tarfile.REGTYPE)
    info.linkname, info.size = target, size
    info.mode = 0o755
    return info


def pack(path: Path, *members: tarfile.TarInfo | tuple[str, bytes]) -> Path:
    """Write an archive of files, given by name and content, and of other members."""
    with tarfile.open(path, "w:gz") as tar:
        for each in members:
            if isinstance(each, tuple):
                tar.addfile(member(each[0], "file", size=len(each[1])), io.BytesIO(each[1]))
            else:
                tar.addfile(each)
    return path


def check_source(archive: Path, max_bytes: int, sha256: str = "", **limits: int) -> Path:
    """Check an archive; return the path of its manifest."""
    manifest = archive.with_suffix(".manifest")
    write_source_manifest(archive, manifest, max_bytes, sha256, **limits)
    return manifest


def update_workspace(connection: Connection, archive: Path) -> None:
    """Lay an archive on a disk without an earlier source."""
    lay(connection, archive, check_source(archive, 10 * ROOM), time=int(time.time()))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "source.tar.gz"


class TestChecking:
    def test_a_tree_with_folders_links_and_long_names_is_fine(self, archive: Path):
        names = ["src", "./src/deep", "src/" + "n" * 200 + "/é"]
        folders = [member(name, "folder") for name in names]
        links = [
            member("a", "link", "src/hello.txt"),
            member("src/b", "link", "../a"),
            member("c", "hard link", HELLO[0]),
        ]
        check_source(pack(archive, HELLO, *folders, *links), ROOM)

    def test_a_header_that_python_reads_slowly_costs_a_bounded_time(self, archive: Path):
        """Digits of a megabyte, packed into some hundred bytes (CVE-2024-6232)."""
        header = member("pax", "file", size=1_000_000)
        header.type = tarfile.XHDTYPE
        with gzip.open(archive, "wb") as packed:
            packed.write(header.tobuf() + b"0" * 1_000_448 + member("a", "file").tobuf() + bytes(1024))
        confinement = Confinement()
        began = time.process_time()
        try:
            with pytest.raises(SourceError, match=r"more than 1 s of CPU time|not a valid gzipped tar"):
                write_source_manifest_confined(
                    confinement, "acme", archive, archive.with_suffix(".manifest"), ROOM, most_cpu_seconds=1
                )
        finally:
            confinement.close()
        assert time.process_time() - began < 1  # of the service itself

    def test_an_empty_tree_is_fine(self, archive: Path):
        check_source(pack(archive), ROOM)

    @pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "a/..", "..", "//x"])
    def test_names_that_lead_out_are_refused(self, archive: Path, name: str):
        with pytest.raises(SourceError, match="leads out of it"):
            check_source(pack(archive, HELLO, (name, b"bad")), ROOM)

    @pytest.mark.parametrize("kind", SPECIAL)
    def test_special_files_are_refused(self, archive: Path, kind: str):
        with pytest.raises(SourceError, match="special file: 'bad'"):
            check_source(pack(archive, HELLO, member("bad", kind)), ROOM)

    @pytest.mark.parametrize("kind", ["link", "hard link"])
    @pytest.mark.parametrize("target", ["/etc", "..", "../x", "src/../../x"])
    def test_links_that_lead_out_are_refused(self, archive: Path, kind: str, target: str):
        with pytest.raises(SourceError, match="link that leads out of it"):
            check_source(pack(archive, HELLO, member("bad", kind, target)), ROOM)

    def test_links_lead_from_where_they_lie(self, archive: Path):
        check_source(pack(archive, HELLO, member("src/up", "link", "../x")), ROOM)
        with pytest.raises(SourceError, match="link that leads out of it"):
            check_source(pack(archive, HELLO, member("src/up", "link", "../../x")), ROOM)

    @pytest.mark.parametrize("below", ["link/bad", "./link/deep/bad", "link//bad"])
    def test_members_below_a_link_are_refused(self, archive: Path, below: str):
        with pytest.raises(SourceError, match="below a link"):
            check_source(pack(archive, HELLO, member("link", "link", "src"), (below, b"bad")), ROOM)

    def test_a_link_replaced_by_a_folder_is_a_folder(self, archive: Path):
        check_source(pack(archive, member("x", "link", "src"), member("x", "folder"), ("x/y", b"fine")), ROOM)

    def test_a_hard_link_through_a_link_is_refused(self, archive: Path):
        links = [member("link", "link", "src"), member("bad", "hard link", "link/hello.txt")]
        with pytest.raises(SourceError, match="hard link through a link"):
            check_source(pack(archive, HELLO, *links), ROOM)

    def test_more_than_fits_is_refused(self, archive: Path):
        pack(archive, ("big", b"\0" * 3_000_000))
        check_source(archive, 3_000_000)
        with pytest.raises(SourceError, match="unpacks to more than 2999999 bytes"):
            check_source(archive, 2_999_999)

    def test_a_bomb_is_refused_by_its_header(self, archive: Path):
        header = member("bomb", "file", size=1 << 40).tobuf(tarfile.GNU_FORMAT)
        archive.write_bytes(gzip.compress(header + b"\0" * 1_000_000))
        with pytest.raises(SourceError, match="unpacks to more than"):
            check_source(archive, ROOM)

    def test_a_bomb_behind_the_end_of_the_archive_is_refused(self, archive: Path):
        pack(archive, HELLO)
        archive.write_bytes(archive.read_bytes() + gzip.compress(b"\0" * 3 * ROOM))
        with pytest.raises(SourceError, match="unpacks to more than"):
            check_source(archive, ROOM)

    @pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
    def test_endless_headers_are_refused_before_they_are_read(self, archive: Path, form: int):
        info = member("n" * 50_000_000, "file")
        archive.write_bytes(gzip.compress(info.tobuf(form)))
        tracemalloc.start()
        with pytest.raises(SourceError, match="a header in it is too long"):
            check_source(archive, 1 << 30)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8 << 20

    def test_names_past_any_path_are_refused(self, archive: Path):
        with pytest.raises(SourceError, match="more than 4096 bytes"):
            check_source(pack(archive, ("n" * 4097, b"")), ROOM)

    def test_too_many_entries_are_refused(self, archive: Path):
        check_source(pack(archive, *((str(number), b"") for number in range(50))), ROOM, max_entries=50)
        with pytest.raises(SourceError, match="more than 50 entries"):
            check_source(pack(archive, *((str(number), b"") for number in range(51))), ROOM, max_entries=50)

    def test_members_past_counting_take_no_memory(self, archive: Path):
        with gzip.open(archive, "wb", 1) as file:
            file.writelines(member(f"file-{number}", "file").tobuf() for number in range(20_000))
        tracemalloc.start()
        check_source(archive, ROOM * 10)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4 << 20

    def test_an_invalid_archive_is_refused(self, archive: Path):
        for contents in (b"", b"PK\3\4zip", gzip.compress(b""), gzip.compress(b"text " * 500), random.randbytes(5000)):
            archive.write_bytes(contents)
            with pytest.raises(SourceError, match="not a valid gzipped tar"):
                check_source(archive, ROOM)

    @pytest.mark.parametrize("keep", [0.2, 0.6, 0.99])
    def test_half_an_archive_is_refused(self, archive: Path, keep: float):
        whole = pack(archive, ("noise", random.randbytes(100_000)), HELLO).read_bytes()
        archive.write_bytes(whole[: int(len(whole) * keep)])
        with pytest.raises(SourceError, match="not a valid gzipped tar"):
            check_source(archive, ROOM)

    def test_the_digest_is_checked_where_one_is_given(self, archive: Path):
        pack(archive, HELLO)
        check_source(archive, ROOM, sha256=hashlib.sha256(archive.read_bytes()).hexdigest().upper())
        with pytest.raises(SourceError, match="has the SHA-256"):
            check_source(archive, ROOM, sha256="0" * 64)

    @settings(max_examples=300)
    @given(where=st.integers(0, 3000), what=st.binary(min_size=1, max_size=40), packed=st.booleans())
    def test_any_damage_gives_a_verdict(
        self, tmp_path_factory: pytest.TempPathFactory, where: int, what: bytes, packed: bool
    ):
        archive = tmp_path_factory.mktemp("damage") / "x"
        pack(archive, HELLO, member("src", "folder"), member("l", "link", "src"), ("n" * 150, b"x" * 700))
        data = archive.read_bytes() if packed else gzip.decompress(archive.read_bytes())
        data = data[:where] + what + data[where + len(what) :]
        archive.write_bytes(data if packed else gzip.compress(data))
        try:
            check_source(archive, ROOM)
        except SourceError as error:
            assert str(error)  # noqa: PT017 - either verdict is fine


class TestLaying:
    def test_it_lands_in_the_workspace_owned_by_root(self, connection: Connection, archive: Path):
        info = member("run.sh", "file", size=3)
        info.uid, info.gid, info.mode = 1234, 1234, 0o754
        with tarfile.open(archive, "w:gz") as tar:
            tar.addfile(info, io.BytesIO(b"abc"))
        update_workspace(connection, archive)
        assert shown(connection, "stat -c '%u %g %a' run.sh; cat run.sh") == "0 0 754\nabc"
        assert run_in_job(connection, "find / -xdev -name '*.tar*' -newer /etc/hostname").stdout == b""
        assert connection.run("find /tmp /run -name '*.tar*'", timeout=TIMEOUT).stdout == b""

    def test_files_are_overwritten_and_others_kept(self, connection: Connection, archive: Path):
        shown(
            connection,
            "mkdir src; echo old >src/hello.txt; echo kept >src/other; ln -s other src/link; chmod 444 src/*",
        )
        update_workspace(connection, pack(archive, HELLO, ("src/link", b"a file now")))
        assert shown(connection, "cat src/hello.txt src/other src/link") == "hellokept\na file now"

    @pytest.mark.parametrize("place", ["/etc", "/tmp", "/run", "/dev/shm", "/run/ci-daemon", "/", "real"])
    def test_links_in_the_place_of_folders_give_way(self, connection: Connection, archive: Path, place: str):
        shown(connection, f"mkdir real; ln -s {place} trap")
        update_workspace(connection, pack(archive, ("trap/evil", b"fine")))
        assert shown(connection, f"cat trap/evil; [ ! -e {place}/evil ]") == "fine"

    @pytest.mark.parametrize("place", ["/etc", "/tmp", "/run", "/dev", "/run/ci-daemon", "/run/ci-daemon/ssh", "/"])
    def test_all_but_the_workspace_is_read_only_to_the_unpacker(self, connection: Connection, place: str):
        program = in_workspace(f"ln -s {place} trap; echo bad >trap/evil")
        assert b"Read-only file system" in connection.run(program, timeout=TIMEOUT).stderr
        assert connection.run(f"[ -e {place}/evil ]", timeout=TIMEOUT).exit_code == 1
        assert run_in_job(connection, f"[ -e {place}/evil ]").exit_code == 1

    def test_errors_of_tar_are_reported(self, connection: Connection, archive: Path):
        pack(archive, ("n" * 300, b""))
        with pytest.raises(SourceError, match="File name too long"):
            update_workspace(connection, archive)

    def test_an_archive_that_is_not_as_its_manifest_says_is_refused(self, connection: Connection, archive: Path):
        manifest = check_source(pack(archive, HELLO), ROOM)
        with pytest.raises(SourceError, match="was changed"):
            lay(connection, pack(archive, (HELLO[0], b"world")), manifest, time=0)
        archive.write_bytes(b"")
        with pytest.raises(SourceError, match="ends too early"):
            lay(connection, archive, manifest, time=0)

    def test_a_large_source_arrives_whole(self, connection: Connection, archive: Path):
        pack(archive, *((f"f{number}", random.randbytes(1_000_000)) for number in range(30)))
        update_workspace(connection, archive)
        assert shown(connection, "du --bytes --summarize . | cut -f1") > "30000000"


def shown(connection: Connection, script: str) -> str:
    """Run a script in the workspace, and return its output."""
    done = run_in_job(connection, f"cd /workspace; {script}")
    assert done.exit_code == 0, done.stderr
    return done.stdout.decode().removesuffix("\n")
