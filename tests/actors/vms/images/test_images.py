from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import signal
import subprocess
import sys
import tarfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from actors.vms import ImageError, ImageNotFound, ImageStore, VmError
from actors.vms.host import IdMap
from actors.vms.images.tree import has_shell
from tests.actors.vms.images.trees import PROGRAMS, hidden, info, root_tar
from tests.waiting import until


class TestImporting:
    @pytest.mark.parametrize(
        "pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["tar", "gzip", "bzip2", "xz"]
    )
    def test_a_tar_becomes_a_tree_of_the_vms_ids(self, store: ImageStore, idmap: IdMap, pack: object):
        tar = root_tar(
            info("./etc/secret", uid=42, mode=0o4750), info("etc/link", tarfile.SYMTYPE, target="/etc/secret")
        )
        packed = pack(tar)  # type: ignore[operator] # a function of the list
        image = store.import_("mine:1", io.BytesIO(packed), source="rootfs.tar")
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
        assert image.digest == f"sha256:{hashlib.sha256(packed).hexdigest()}"
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

    def test_a_tree_without_a_shell_is_refused(self, store: ImageStore, folder: Path):
        with pytest.raises(ImageError, match='"mine" has no /bin/sh, so no command can run in it: take an image'):
            store.import_("mine", io.BytesIO(root_tar(without="sh")))
        assert store.names() == []
        assert hidden(folder) == []

    @pytest.mark.parametrize("lacking", [program for program in PROGRAMS if program != "sh"])
    def test_a_tree_lacking_a_program_is_no_base(self, store: ImageStore, lacking: str):
        store.import_("whole", io.BytesIO(root_tar()))
        store.import_("lacking", io.BytesIO(root_tar(without=lacking)))
        assert [store.can_be_base(name) for name in ("whole", "lacking", "missing")] == [True, False, False]

    def test_a_program_counts_only_within_the_tree(self, tmp_path: Path):
        (tmp_path / "bin").mkdir()
        assert not has_shell(tmp_path)
        (tmp_path / "bin" / "sh").symlink_to("/bin/busybox")
        assert not has_shell(tmp_path)
        (tmp_path / "bin" / "busybox").touch(mode=0o644)
        assert not has_shell(tmp_path)
        (tmp_path / "bin" / "busybox").chmod(0o755)
        assert has_shell(tmp_path)

    @pytest.mark.parametrize("target", ["sh", "../../../bin/sh", "/proc/self/exe", "../../../../../../../../bin/sh"])
    def test_a_link_out_of_the_tree_is_no_program(self, tmp_path: Path, target: str):
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "sh").symlink_to(target)
        assert not has_shell(tmp_path)

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
            "from actors.vms import ImageStore\nfrom actors.vms.host import IdMap\n"
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
