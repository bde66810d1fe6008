"""Images of an engine's own, by their aliases."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors.vms import Connection, ImageStore, SandboxSettings, VmSpec, in_job
from actors.vms.host import IdMap, run_mapped
from actors.vms.incus import Engine, IncusProvider, access_of
from actors.vms.incus.volumes import IMAGE, OWNER, Volumes
from ci_daemon.command import main
from storage import Shape, SystemClock
from tests.fleet.engine import INCUS, LXD
from tests.fleet.fleet import Fleet
from tests.fleet.prepared import PreparedFleet
from tests.programs import unpacked_program
from tests.waiting import until

_SECONDS = 60.0
_CREATE = """
import sys
from pathlib import Path
from actors.vms import ImageStore, SandboxSettings, VmSpec
from actors.vms.host import IdMap
from actors.vms.incus import IncusProvider
from ci_daemon.config import load
from storage import Shape, SystemClock
state, folder, images = map(Path, sys.argv[1:])
ids = IdMap.of_caller()
provider = IncusProvider(folder, ImageStore(images, ids), ids, SystemClock(), load(state, {}).incus, SandboxSettings())
provider.create(VmSpec("vm-1", "debian:12", None, Shape(memory_gb=1), False))
"""


@pytest.fixture(params=[INCUS, LXD], ids=lambda engine: engine.name)
def prepared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PreparedFleet]:
    with Fleet(request.param) as fleet:
        (tmp_path / "state").mkdir()
        yield PreparedFleet.make(fleet, tmp_path / "state", over_tls=False)


@pytest.fixture
def engine(tmp_path: Path, prepared: PreparedFleet) -> Iterator[Engine]:
    """The engine, as the service's own client."""
    settings = prepared.config.incus
    with closing(Engine(access_of(tmp_path / "state", settings), settings.project)) as engine:
        yield engine


@pytest.fixture
def store(tmp_path: Path, image_store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ImageStore]:
    """A store that has the image alone whose sshd serves VMs."""
    monkeypatch.setenv("CI_DAEMON_IMAGES_DIR", str(tmp_path / "images"))
    made = ImageStore(tmp_path / "images", IdMap.of_caller())
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "debian@12").symlink_to(image_store.path("debian:12").parent)
    yield made
    run_mapped(["rm", "-rf", "images"], idmap=IdMap.of_caller().with_caller(), cwd=tmp_path)


def test_an_engines_image_is_pulled_by_its_alias(tmp_path: Path, engine: Engine, store: ImageStore):
    """Nothing else is left of it on the engine; pulled again, it replaces the one of before."""
    _add_image(engine, "golden")
    images = engine.get("/1.0/images")
    for _ in range(2):
        assert _run(tmp_path, "image", "pull", "incus:golden") == 0
        assert store.get("incus:golden").source == "pulled incus:golden"
        assert engine.get("/1.0/images") == images
        assert engine.get("/1.0/instances") == []


@pytest.mark.parametrize("prepared", [INCUS], indirect=True, ids=["incus"])
def test_a_vm_starts_from_an_image_of_its_engine(
    tmp_path: Path, prepared: PreparedFleet, engine: Engine, store: ImageStore
):
    _add_image(engine, "golden")
    assert _run(tmp_path, "image", "pull", "incus:golden") == 0
    clock, idmap = SystemClock(), IdMap.of_caller()
    provider = IncusProvider(tmp_path / "vms", store, idmap, clock, prepared.config.incus, SandboxSettings())
    with closing(provider):
        provider.create(VmSpec("vm-1", "incus:golden", None, Shape(memory_gb=1), network=False))
        with Connection(provider.connect("vm-1"), clock, timeout=_SECONDS) as connection:
            said = connection.run(in_job("stat -c %u:%h /etc/golden; cat /etc/again"), timeout=_SECONDS)
        assert said.stdout == b"1234:2\nnugget\n"
        provider.destroy("vm-1")


@pytest.mark.usefixtures("store")
def test_an_alias_that_an_engine_lacks_is_said_with_others(
    tmp_path: Path, engine: Engine, capsys: pytest.CaptureFixture[str]
):
    _add_image(engine, "golden")
    assert _run(tmp_path, "image", "pull", "incus:silver") != 0
    assert "it has: golden" in capsys.readouterr().err


@pytest.mark.parametrize("prepared", [INCUS], indirect=True, ids=["incus"])
def test_copies_of_images_go_when_the_store_has_them_no_more(
    tmp_path: Path, prepared: PreparedFleet, engine: Engine, store: ImageStore
):
    """So does what a service that was killed had begun to fill; what the store has stays, and so do disks."""
    _add_image(engine, "golden")
    assert _run(tmp_path, "image", "pull", "incus:golden") == 0
    clock, idmap, volumes = SystemClock(), IdMap.of_caller(), Volumes(engine, prepared.config.incus.storage)
    provider = IncusProvider(tmp_path / "vms", store, idmap, clock, prepared.config.incus, SandboxSettings())
    with closing(provider):
        for vm_id, image in (("vm-1", "incus:golden"), ("vm-2", "debian:12")):
            provider.create(VmSpec(vm_id, image, None, Shape(memory_gb=1), network=False))
        volumes.make("ci-fill-left", {OWNER: "ci", IMAGE: "debian:12"}, None)
        volumes.make("ci-image-others", {}, None)
        before = set(volumes.names())
        provider.remove_image_copies()
        assert before - set(volumes.names()) == {"ci-fill-left"}
        store.remove("incus:golden")
        provider.remove_image_copies()
        left = [volume for volume in volumes.all() if volume.name.startswith("ci-image-")]
        assert {volume.labels.get(IMAGE) for volume in left} == {"debian:12", None}
        assert provider.alive("vm-1")
        assert {"ci-disk-vm-1", "ci-disk-vm-2"} <= set(volumes.names())
        for vm_id in provider.list():
            provider.destroy(vm_id)


@pytest.mark.parametrize("prepared", [INCUS], indirect=True, ids=["incus"])
def test_what_another_process_fills_is_left_until_that_is_killed(
    tmp_path: Path, prepared: PreparedFleet, engine: Engine, image_store: ImageStore, images_dir: Path
):
    folder, idmap, settings = tmp_path / "vms", IdMap.of_caller(), prepared.config.incus
    volumes = Volumes(engine, settings.storage)
    other = subprocess.Popen([sys.executable, "-c", _CREATE, tmp_path / "state", folder, images_dir])
    try:
        (filled,) = until(lambda: [name for name in volumes.names() if "-fill-" in name], "the other's image", _SECONDS)
        os.kill(other.pid, signal.SIGSTOP)
        with closing(IncusProvider(folder, image_store, idmap, SystemClock(), settings, SandboxSettings())) as provider:
            provider.remove_image_copies()
            assert filled in volumes.names()
            other.kill()
            other.wait()
            provider.remove_image_copies()
            assert filled not in volumes.names()
            assert filled not in engine.get("/1.0/instances")
    finally:
        other.kill()
        other.wait()


def _run(folder: Path, *words: str) -> int:
    return main(["--state-dir", str(folder / "state"), *words])


def _add_image(engine: Engine, alias: str) -> None:
    """Give an engine an image of busybox, with a file that has an owner and a second name."""
    fingerprint = engine.upload("/1.0/images", [_image()], _SECONDS)["fingerprint"]
    engine.do("POST", "/1.0/images/aliases", {"name": alias, "target": fingerprint})


def _image() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        _add(tar, "metadata.yaml", b"architecture: x86_64\ncreation_date: 1\n")
        for folder in ("bin", "etc", "dev", "proc", "sys", "tmp"):
            _add(tar, f"rootfs/{folder}", type=tarfile.DIRTYPE, mode=0o755)
        _add(tar, "rootfs/bin/busybox", Path(unpacked_program("busybox")).read_bytes(), mode=0o755)
        for name in ("sh", "cat", "stat"):
            _add(tar, f"rootfs/bin/{name}", type=tarfile.SYMTYPE, linkname="busybox")
        _add(tar, "rootfs/etc/golden", b"nugget\n", uid=1234)
        _add(tar, "rootfs/etc/again", type=tarfile.LNKTYPE, linkname="rootfs/etc/golden")
    return content.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes = b"", **facts: Any) -> None:
    entry = tarfile.TarInfo(name)
    for fact, value in {"size": len(content), **facts}.items():
        setattr(entry, fact, value)
    tar.addfile(entry, io.BytesIO(content))
