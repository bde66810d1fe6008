from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms.host.ids import Extent, IdMap, MappedProgramFailed, NoSubIds, run_mapped
from actors.vms.launcher import broker

ME = pwd.getpwuid(os.geteuid()).pw_name
RANGE = (Extent(0, 300_000, 65_536),)
OF_CONTAINER = (Extent(0, 1, 65_536),)


def etc(folder: Path, subuid: str, subgid: str) -> Path:
    (folder / "subuid").write_text(subuid)
    (folder / "subgid").write_text(subgid)
    return folder


def container(folder: Path, count: int) -> Path:
    """Write the maps of a process in a container of an ordinary user, who has that many sub-ids."""
    for name in ("uid_map", "gid_map"):
        (folder / name).write_text(f"{0:10} {1000:10} {1:10}\n{1:10} {100_000:10} {count:10}\n")
    return folder


@pytest.fixture
def folder(tmp_path: Path, idmap: IdMap) -> Iterator[Path]:
    """A folder of the caller that the mapped ids cannot reach by its path."""
    tmp_path.chmod(0o700)
    yield tmp_path
    run_mapped(["sh", "-c", "rm -rf ./*"], idmap=idmap.with_caller(), cwd=tmp_path)


class TestFindingTheRange:
    def test_it_is_found_by_login_name(self, tmp_path: Path):
        lines = f"other:100000:65536\n{ME}:300000:65536\n"
        assert IdMap.of_caller(etc(tmp_path, lines, lines)) == IdMap(RANGE, RANGE)

    def test_it_is_found_by_numeric_id(self, tmp_path: Path):
        lines = f"{os.geteuid()}:300000:131072"
        assert IdMap.of_caller(etc(tmp_path, lines, lines)) == IdMap(RANGE, RANGE)

    def test_small_ranges_and_broken_lines_are_passed_over(self, tmp_path: Path):
        lines = f"# comment\n{ME}:1:100\n{ME}:x:65536\n{ME}\n\n{ME}:300000:65536\n"
        assert IdMap.of_caller(etc(tmp_path, lines, lines)) == IdMap(RANGE, RANGE)

    def test_the_caller_is_never_in_it(self, idmap: IdMap):
        assert idmap.root_uid != os.geteuid()
        assert idmap.gids[0].outside != os.getegid()

    def test_without_one_the_command_that_gives_one_is_named(self, tmp_path: Path):
        command = f"`sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {ME}`"
        with pytest.raises(NoSubIds, match="no range of 65536 ids in /etc/subuid and /etc/subgid") as caught:
            IdMap.of_caller(tmp_path)
        assert command in str(caught.value)

    def test_only_missing_sub_ids_are_added_from_a_free_range(self, tmp_path: Path):
        folder = etc(tmp_path, f"{ME}:100000:65536\nother:165536:65536\n", "third:250000:100\n")
        with pytest.raises(NoSubIds, match="in /etc/subgid: run") as caught:
            IdMap.of_caller(folder)
        assert f"`sudo usermod --add-subgids 296608-362143 {ME}`" in str(caught.value)

    def test_one_that_the_container_has_not_is_passed_over(self, tmp_path: Path):
        lines = f"{ME}:100000:65536\n{ME}:1:65536\n"
        assert IdMap.of_caller(etc(tmp_path, lines, lines), container(tmp_path, 65_536)) == IdMap(
            OF_CONTAINER, OF_CONTAINER
        )

    def test_in_a_container_a_range_that_it_has_is_named(self, tmp_path: Path):
        with pytest.raises(NoSubIds, match="--add-subuids 1-65536 --add-subgids 1-65536"):
            IdMap.of_caller(tmp_path, container(tmp_path, 65_536))

    def test_a_container_with_few_ids_is_told_what_it_needs(self, tmp_path: Path):
        with pytest.raises(NoSubIds, match=r"this container has too few ids, .* start it with 65537 or more"):
            IdMap.of_caller(tmp_path, container(tmp_path, 65_535))


class TestRunningInside:
    def test_a_program_is_root_over_65536_ids_and_not_outside(self, idmap: IdMap, folder: Path):
        shown = run_mapped(["sh", "-c", "id -u; id -g; cat /proc/self/uid_map"], idmap=idmap, cwd=folder)
        assert shown.split() == [b"0", b"0", b"0", str(idmap.root_uid).encode(), b"65536"]

    def test_it_gets_a_bare_environment_and_no_groups(self, idmap: IdMap, folder: Path):
        os.environ["SECRET_OF_THE_DAEMON"] = "x"
        try:
            shown = run_mapped(["sh", "-c", "env; id -G"], idmap=idmap, cwd=folder).decode()
        finally:
            del os.environ["SECRET_OF_THE_DAEMON"]
        assert "SECRET" not in shown
        assert shown.splitlines()[-1] == "0"

    def test_a_map_with_the_caller_reaches_files_of_both(self, idmap: IdMap, folder: Path):
        (folder / "mine").write_text("x")
        script = "stat -c %u mine . && mkdir theirs && touch theirs/a && chown 5:6 theirs/a && mv mine theirs/"
        shown = run_mapped(["sh", "-c", script], idmap=idmap.with_caller(), cwd=folder)
        assert shown.split() == [b"65536", b"65536"]
        assert (folder / "theirs").stat().st_uid == idmap.root_uid
        found = (folder / "theirs" / "a").stat()
        assert (found.st_uid, found.st_gid) == (idmap.root_uid + 5, idmap.gids[0].outside + 6)
        assert (folder / "theirs" / "mine").stat().st_uid == os.geteuid()

    def test_files_of_the_caller_are_closed_where_it_is_not(self, idmap: IdMap, folder: Path):
        (folder / "mine").write_text("x")
        (folder / "mine").chmod(0o600)
        with pytest.raises(MappedProgramFailed, match="Permission denied"):
            run_mapped(["cat", "mine"], idmap=idmap, cwd=folder)
        with pytest.raises(MappedProgramFailed, match="Permission denied"):
            run_mapped(["touch", "new"], idmap=idmap, cwd=folder)

    def test_descriptors_and_input_are_handed_in(self, idmap: IdMap, folder: Path):
        (folder / "in").write_text("given")
        (folder / "in").chmod(0o600)
        with (folder / "in").open("rb") as file, (folder / "in").open("rb") as other:
            argv = ["bash", "-c", f"cat; cat <&{other.fileno()}"]
            assert run_mapped(argv, idmap=idmap, cwd=folder, stdin=file, pass_fds=[other.fileno()]) == b"givengiven"

    def test_a_failure_includes_the_programs_output(self, idmap: IdMap, folder: Path):
        with pytest.raises(MappedProgramFailed, match=r"`sh -c 'echo oh >&2; exit 3'` failed with status 3: oh"):
            run_mapped(["sh", "-c", "echo oh >&2; exit 3"], idmap=idmap, cwd=folder)
        with pytest.raises(MappedProgramFailed, match="no-such-program: No such file"):
            run_mapped(["no-such-program"], idmap=idmap, cwd=folder)

    def test_what_takes_too_long_is_ended(self, idmap: IdMap, folder: Path):
        with pytest.raises(MappedProgramFailed, match=r"took longer than 0\.2 s"):
            run_mapped(["sleep", "60"], idmap=idmap, cwd=folder, timeout=0.2)

    def test_ids_that_the_caller_may_not_map_are_refused(self, folder: Path):
        of_root = (Extent(0, 100_000, 65_536), Extent(10, 300_000, 5))  # the extents overlap, which the kernel refuses
        extents = of_root if os.geteuid() == 0 else (Extent(0, 1, 65_536),)
        with pytest.raises(MappedProgramFailed, match="cannot be mapped"):
            run_mapped(["true"], idmap=IdMap(extents, extents), cwd=folder)


@pytest.fixture
def ordinary_user() -> Iterator[pwd.struct_passwd]:
    """A user other than root: the caller, or a new user if root runs the test."""
    if os.geteuid() != 0:
        yield pwd.getpwuid(os.geteuid())
        return
    name = f"ci-test-{uuid.uuid4().hex[:8]}"
    subprocess.run(["useradd", "--create-home", name], check=True, capture_output=True)
    try:
        yield pwd.getpwnam(name)
    finally:
        subprocess.run(["userdel", "--remove", name], check=False, capture_output=True)


def test_an_ordinary_user_maps_by_newuidmap(ordinary_user: pwd.struct_passwd):
    """The entry script runs alone, with the system's python, in a folder that any user can read."""
    home, me = Path(ordinary_user.pw_dir), ordinary_user
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        script = shutil.copy(Path(broker.__file__).with_name("enter.py"), place)
        ranges = [line.split(":") for line in Path("/etc/subuid").read_text().split()]
        start = next(start for name, start, _ in ranges if name == me.pw_name)
        maps = [f"0 {start} 65536,65536 {own} 1" for own in (me.pw_uid, me.pw_gid)]
        program = [
            "sh",
            "-c",
            "id -u; id -G; umask 077; mkdir made-by-root; stat -c %u . made-by-root; rmdir made-by-root",
        ]
        identity = {"user": me.pw_uid, "group": me.pw_gid, "extra_groups": [1]} if os.geteuid() == 0 else {}
        done = subprocess.run(
            ["/usr/bin/python3", "-I", "-S", script, *maps, *program],
            cwd=home,
            capture_output=True,
            check=False,
            **identity,  # type: ignore[call-overload] # only root may set them
        )
    assert (done.stderr, done.stdout.split()) == (b"", [b"0", b"0", b"65536", b"0"])
