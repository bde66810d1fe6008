from __future__ import annotations

import bz2
import fcntl
import gzip
import io
import lzma
import os
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.vms import ImageError, ImageNotFound, Images, ImageStore, VmError
from actors.vms.images import RELEASES, check_name, host_apt, resolve
from actors.vms.images.names import folder_of, name_of
from actors.vms.images.scratch import scratch
from actors.vms.images.tree import missing_programs
from actors.vms.sandbox import IdMap, run_mapped
from tests.waiting import until

PROGRAMS = ["sh", "env", "tail", "tar", "gzip", "mount", "setsid", "unshare", "nsenter", "flock"]


class Refusing(BaseHTTPRequestHandler):
    """A proxy that refuses every request."""

    def do_GET(self) -> None:
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        pass


def root_tar(*extra: tarfile.TarInfo, without: str = "") -> bytes:
    """Return the smallest root file system that the store accepts, laid out as in Debian."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("usr", "usr/bin", "usr/sbin", "etc", "dev"):
            tar.addfile(info(f"./{folder}", tarfile.DIRTYPE))
        tar.addfile(info("./bin", tarfile.SYMTYPE, target="usr/bin"))
        for name in [f"usr/bin/{program}" for program in PROGRAMS] + ["usr/sbin/sshd"]:
            if not name.endswith(f"/{without}"):
                tar.addfile(info(f"./{name}"))
        for each in extra:
            tar.addfile(each)
    return buffer.getvalue()


def info(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", uid: int = 0, mode: int = 0o755
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.uid, made.gid, made.mode = kind, target, uid, uid, mode
    return made


@pytest.fixture
def folder(tmp_path: Path, idmap: IdMap) -> Iterator[Path]:
    """A store's folder in a home that the VMs' ids cannot enter."""
    tmp_path.chmod(0o700)
    yield tmp_path / "images"
    run_mapped(["rm", "-rf", "images"], idmap=idmap.with_caller(), cwd=tmp_path)


@pytest.fixture
def store(folder: Path, idmap: IdMap) -> ImageStore:
    return ImageStore(folder, idmap)


def hidden(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.iterdir() if place.name.startswith(".making"))


class TestNames:
    @pytest.mark.parametrize("name", ["debian:12", "a", "team/base", "ghcr.io/team/base_2:v1.0-RC", "0"])
    def test_names_are_as_in_registries(self, name: str):
        check_name(name)

    @pytest.mark.parametrize(
        "name", ["", "Debian", "-x", ".x", "a/../b", "/etc", "a//b", "a:b:c", "a:", "a b", "é", "a\n", "a" * 201]
    )
    def test_all_else_is_refused(self, store: ImageStore, name: str):
        with pytest.raises(VmError, match="is not a valid image name"):
            check_name(name)
        with pytest.raises(VmError):
            store.import_(name, io.BytesIO())
        with pytest.raises(ImageNotFound):
            store.path(name)

    @given(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,5}(/[a-z0-9][a-z0-9._-]{0,5})?(:[a-z0-9]{1,5})?", fullmatch=True))
    def test_every_name_has_a_folder_of_its_own(self, name: str):
        check_name(name)
        assert name_of(folder_of(name)) == name
        assert not set(folder_of(name)) & set("/:,\\")

    @pytest.mark.parametrize(
        ("named", "gets"),
        [
            (None, "debian:12"),
            ("own", "own"),
            ("docker.io/library/own:latest", "own:latest"),
            ("mapped", "own"),
            ("docker.io/mapped:latest", "own"),
            ("to/default", "debian:12"),
            ("to/hub", "alpine:3"),
            ("unknown", "unknown:latest"),
            ("index.docker.io/library/alpine:3", "alpine:3"),
            ("ghcr.io/team/base", "ghcr.io/team/base:latest"),
            ("127.0.0.1:5000/base:1", "127.0.0.1:5000/base:1"),
            (f"alpine:3@sha256:{'a' * 64}", f"alpine@sha256:{'a' * 64}"),
            ("No Name", "No Name"),
        ],
    )
    def test_a_job_gets_the_image_it_names_or_its_substitute(self, named: str | None, gets: str):
        mapping = {
            "mapped:latest": "own", "mapped": "own", "own": "other", "to/default": "default",
            "to/hub": "docker.io/library/alpine:3",
        }  # fmt: skip
        assert resolve(named, ["debian:12", "own", "own:latest"], "debian:12", mapping) == gets

    @pytest.mark.parametrize("name", ["ubuntu:24.04", "docker.io/library/ubuntu:24.04"])
    def test_the_default_stands_in_for_the_image_that_the_dsl_stamps(self, name: str):
        assert resolve(name, ["debian:12"], "debian:12", {}) == "debian:12"
        assert resolve(name, ["debian:12", "ubuntu:24.04"], "debian:12", {}) == "ubuntu:24.04"
        assert resolve("ubuntu:22.04", ["debian:12"], "debian:12", {}) == "ubuntu:22.04"

    def test_an_image_that_is_there_is_never_mapped(self, store: ImageStore):
        images = Images(store, "debian:12", {"ubuntu:24.04": "debian:12"})
        assert images.resolve("ubuntu:24.04") == "debian:12"
        store.import_("ubuntu:24.04", io.BytesIO(root_tar()))
        assert images.resolve("ubuntu:24.04") == "ubuntu:24.04"
        assert images.path("ubuntu:24.04") == store.path("ubuntu:24.04")


class TestImporting:
    @pytest.mark.parametrize(
        "pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["tar", "gzip", "bzip2", "xz"]
    )
    def test_a_tar_becomes_a_tree_of_the_vms_ids(self, store: ImageStore, idmap: IdMap, pack: object):
        tar = root_tar(
            info("./etc/secret", uid=42, mode=0o4750), info("etc/link", tarfile.SYMTYPE, target="/etc/secret")
        )
        image = store.import_("mine:1", io.BytesIO(pack(tar)), source="rootfs.tar")  # type: ignore[operator] # a function of the list
        tree = store.path("mine:1")
        found = (tree / "etc" / "secret").stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (
            idmap.root_uid + 42,
            idmap.gids[0].outside + 42,
            0o4750,
        )
        assert (tree / "etc" / "link").readlink() == Path("/etc/secret")
        assert tree.stat().st_uid == idmap.root_uid
        assert (image.name, image.source) == ("mine:1", "rootfs.tar")
        assert image.size > 0
        assert list(store.list()) == [image]

    def test_device_nodes_are_left_out(self, store: ImageStore):
        nodes = [
            info("./dev/null", tarfile.CHRTYPE),
            info("dev/zero", tarfile.CHRTYPE),
            info("./etc/odd", tarfile.CHRTYPE),
        ]
        store.import_("mine", io.BytesIO(root_tar(*nodes)))
        assert list((store.path("mine") / "dev").iterdir()) == []

    @pytest.mark.parametrize(
        "evil",
        [
            [info("../evil")],
            [info("../../evil")],
            [info("/tmp/ci-daemon-evil")],
            [info("up", tarfile.SYMTYPE, target="../.."), info("up/evil")],
        ],
    )
    def test_nothing_lands_outside_the_tree(self, store: ImageStore, tmp_path: Path, evil: list[tarfile.TarInfo]):
        with suppress(VmError):
            store.import_("mine", io.BytesIO(root_tar(*evil)))
        assert list(tmp_path.rglob("evil")) in ([], [tmp_path / "images" / "mine" / "tree" / "evil"])
        assert not Path("/tmp/ci-daemon-evil").exists()

    @pytest.mark.parametrize("tar", [b"", b"not a tar" * 1000, gzip.compress(root_tar())[:-400], root_tar()[:2000]])
    def test_an_invalid_tar_leaves_nothing(self, store: ImageStore, folder: Path, tar: bytes):
        with pytest.raises(VmError):
            store.import_("mine", io.BytesIO(tar))
        assert store.names() == []
        assert hidden(folder) == []

    @pytest.mark.parametrize(
        ("program", "package"), [("sshd", "openssh-server"), ("sh", "dash"), ("flock", "util-linux")]
    )
    def test_an_unbootable_tree_is_refused_with_what_it_lacks(self, store: ImageStore, program: str, package: str):
        with pytest.raises(ImageError, match=f'"mine" lacks {program}, .*apt-get install {package}`'):
            store.import_("mine", io.BytesIO(root_tar(without=program)))
        assert store.names() == []

    def test_a_program_counts_only_within_the_tree(self, tmp_path: Path):
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "sh").symlink_to("/bin/busybox")
        assert "sh" in missing_programs(tmp_path)
        (tmp_path / "bin" / "busybox").touch(mode=0o755)
        assert "sh" not in missing_programs(tmp_path)
        (tmp_path / "bin" / "loop").symlink_to("loop")
        (tmp_path / "bin" / "tar").symlink_to("../../../bin/loop")
        assert "tar" in missing_programs(tmp_path)

    def test_a_name_is_taken_once(self, store: ImageStore):
        store.import_("mine", io.BytesIO(root_tar()))
        with pytest.raises(ImageError, match='an image "mine" exists already'):
            store.import_("mine", io.BytesIO(root_tar()))

    def test_concurrent_builds_of_a_name_are_one(self, folder: Path, idmap: IdMap):
        outcomes: dict[str, object] = {}
        reading, writing = os.pipe()

        def run(who: str, tar: IO[bytes]) -> None:
            try:
                outcomes[who] = ImageStore(folder, idmap).import_("mine", tar, source=who)
            except VmError as error:
                outcomes[who] = str(error)

        first = threading.Thread(target=run, args=("first", os.fdopen(reading, "rb")))
        first.start()
        until((folder / ".making-mine").exists, "the start of the first import")
        second = threading.Thread(target=run, args=("second", io.BytesIO(root_tar())))
        second.start()
        second.join(0.1)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(root_tar())
        first.join()
        second.join()
        assert [image.source for image in ImageStore(folder, idmap).list()] == ["first"]
        assert "already" in str(outcomes["second"])

    def test_orphans_of_a_killed_import_go_with_the_next(self, store: ImageStore, folder: Path):
        program = (
            "import sys\nfrom pathlib import Path\n"
            "from actors.vms import ImageStore\nfrom actors.vms.sandbox import IdMap\n"
            f"ImageStore(Path({str(folder)!r}), IdMap.of_caller()).import_('partial', sys.stdin.buffer)\n"
        )
        child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
        assert child.stdin is not None
        until((folder / ".making-partial" / "tree").exists, "the start of the import")
        store.import_("beside", io.BytesIO(root_tar()))
        assert hidden(folder) == [".making-partial"]
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdin.close()
        assert store.names() == ["beside"]
        store.import_("next", io.BytesIO(root_tar()))
        assert hidden(folder) == []


class TestStore:
    def test_an_empty_store_has_nothing(self, store: ImageStore):
        assert store.names() == []
        assert list(store.list()) == []

    def test_an_unknown_image_names_those_there_are(self, store: ImageStore):
        with pytest.raises(ImageNotFound, match=r'no image "x" on this host \(it has: none yet\)'):
            store.path("x")
        for name in ("b", "a:1"):
            store.import_(name, io.BytesIO(root_tar()))
        with pytest.raises(ImageNotFound, match=r"it has: a:1, b\)"):
            store.path("x")

    def test_other_folders_in_it_are_no_images(self, store: ImageStore, folder: Path):
        (folder / "lost+found").mkdir(parents=True)
        assert store.names() == []

    def test_a_removed_image_is_gone_with_all_its_files(self, store: ImageStore, folder: Path):
        store.import_(
            "mine", io.BytesIO(root_tar(info("./etc/closed", tarfile.DIRTYPE, uid=7, mode=0), info("./etc/closed/x")))
        )
        store.remove("mine")
        assert store.names() == []
        assert [place.name for place in folder.iterdir()] == [".locks"]
        with pytest.raises(ImageNotFound):
            store.remove("mine")

    def test_an_image_in_use_stays(self, store: ImageStore):
        store.import_("mine", io.BytesIO(root_tar()))
        with pytest.raises(ImageError, match='"mine" is in use by job 1, job 2'):
            store.remove("mine", used_by=["job 2", "job 1"])
        assert store.names() == ["mine"]


class TestBuilding:
    def test_an_existing_image_is_not_built_again(self, image_store: ImageStore):
        before = list(image_store.list())
        lines: list[str] = []
        assert image_store.build("debian:12", progress=lines.append) in before
        assert lines == []

    def test_the_default_image_has_the_expected_programs(self, image_store: ImageStore, idmap: IdMap):
        tree = image_store.path("debian:12")
        for program in ("bash", "git", "curl", "python3", "make", "ps", "ip", "unzip", "xz"):
            assert (tree / "usr" / "bin" / program).exists(), program
        assert list((tree / "etc" / "ssh").glob("ssh_host_*")) == []
        assert missing_programs(tree) == {}
        facts = next(image for image in image_store.list() if image.name == "debian:12")
        assert facts.size < 350 << 20

    def test_an_unknown_release_names_those_there_are(self, store: ImageStore):
        with pytest.raises(VmError, match=r"debian:12, .*ubuntu:24\.04\): see .*image import"):
            store.build("fedora:40")

    def test_a_build_that_fails_says_why_and_leaves_nothing(self, store: ImageStore, folder: Path):
        lines: list[str] = []
        with pytest.raises(VmError, match=r"mmdebstrap could not build debian:12: .*nowhere"):
            store.build("debian:12", mirror="file:///nowhere", progress=lines.append)
        assert lines
        assert store.names() == []
        assert hidden(folder) == []

    def test_an_unreachable_archive_is_the_only_error(self, store: ImageStore, monkeypatch: pytest.MonkeyPatch):
        """The caller's proxy is used to reach it."""
        with HTTPServer(("127.0.0.1", 0), Refusing) as proxy:
            threading.Thread(target=proxy.serve_forever, daemon=True).start()
            monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
            with pytest.raises(VmError) as failed:
                store.build("debian:12", mirror="http://archive.invalid/debian")
            proxy.shutdown()
        message = str(failed.value)
        assert message.startswith(
            "mmdebstrap could not build debian:12: Failed to fetch http://archive.invalid/debian/"
        )
        assert " 403  Forbidden " in message
        assert message.endswith(
            ": check that this host can reach its package archive, or choose another one with --mirror"
        )

    def test_each_release_has_a_suite(self):
        suites = {name: release.suite for name, release in RELEASES.items()}
        assert suites["debian:13"] == "trixie"
        assert suites["ubuntu:22.04"] == "jammy"


class TestTheHostsOwn:
    HOST = {"ID": "debian", "VERSION_CODENAME": "bookworm"}  # noqa: RUF012 - never changed
    TARGETS = """\
http://mirror.example/debian bookworm main
http://mirror.example/debian bookworm-updates main
http://mirror.example/debian-security/ bookworm-security main
http://mirror.example/debian bookworm contrib
https://other.example/node nodistro main
https://other.example/apt bookworm main
https://other.example/linux/debian bookworm stable
"""

    def test_a_release_comes_from_the_hosts_own_mirror(self):
        assert host_apt.sources_for("debian", "trixie", "main", self.HOST, self.TARGETS) == [
            "deb http://mirror.example/debian trixie main",
            "deb http://mirror.example/debian trixie-updates main",
            "deb http://mirror.example/debian-security/ trixie-security main",
        ]

    def test_of_another_vendor_the_host_knows_nothing(self):
        assert host_apt.sources_for("ubuntu", "noble", "main universe", self.HOST, self.TARGETS) == []
        assert host_apt.sources_for("debian", "trixie", "main", {}, self.TARGETS) == []
        assert (
            host_apt.sources_for("debian", "trixie", "main", self.HOST, "https://other.example/apt bookworm main\n")
            == []
        )

    def test_only_its_own_settings_about_fetching_are_taken(self):
        defaults = 'Acquire "";\nAcquire::Retries "3";\nDPkg::Path "/bin";\n'
        own = (
            'Acquire::http::Proxy "http://proxy.example:3128";\nAcquire::https "";\nDPkg::Post-Invoke:: "evil";\n'
            'Acquire::http::Proxy-Auto-Detect "/usr/bin/detect";\nAcquire::IndexTargets::deb::Icons::Enabled "0";\n'
        )
        assert host_apt.own_options(defaults + own, defaults) == ['Acquire::http::Proxy "http://proxy.example:3128";']

    def test_this_hosts_settings_can_be_read(self):
        assert all(line.startswith("Acquire::") and line.endswith(";") for line in host_apt.apt_options())
        assert all(text.startswith("-----BEGIN CERTIFICATE") for text in host_apt.local_certificates())


def test_the_folder_that_a_dead_build_worked_in_is_swept(tmp_path: Path, idmap: IdMap):
    making = tmp_path / ".making-dead@1"
    making.mkdir()
    (tmp_path / ".locks").mkdir()
    with ExitStack() as alive:
        folder = alive.enter_context(scratch(making, idmap))
        assert folder.stat().st_mode & 0o777 == 0o710
        run_mapped(["mkdir", "inside"], idmap=idmap.with_caller(), cwd=folder)
        ImageStore(tmp_path, idmap).sweep()
        assert not folder.exists()
        alive.pop_all()


def test_only_unfinished_images_of_dead_processes_are_removed(tmp_path: Path, idmap: IdMap):
    store = ImageStore(tmp_path / "store", idmap)
    store.sweep()
    for name in ("dead@1", "living@1"):
        (tmp_path / "store" / f".making-{name}" / "tree").mkdir(parents=True)
    (tmp_path / "store" / ".locks").mkdir()
    with (tmp_path / "store" / ".locks" / "living@1").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        store.sweep()
        assert {path.name for path in (tmp_path / "store").iterdir()} == {".locks", ".making-living@1"}
    store.sweep()
    assert {path.name for path in (tmp_path / "store").iterdir()} == {".locks"}
