from __future__ import annotations

import io
import json
import os
import tarfile
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from actors.vms import ImageSettings, ImageStore, Provider, VmSpec
from actors.vms.images import Image
from ci_daemon.command import main
from ci_daemon.command.support.session import Session
from ci_daemon.config import Config
from ci_daemon.providers import open_images
from storage import AuditFilter, JobState, Shape, Storage
from tests.ci_daemon.conftest import Run
from tests.ci_daemon.terminal.pseudo_terminal import shown
from tests.clock import ManualClock
from tests.records import new_pipeline
from tests.registry import entry, layer
from tests.storage.world import World


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """An image store for one test, with one image."""
    store = tmp_path / "store"
    image = store / "mine@1"
    (image / "tree").mkdir(parents=True)
    facts = {"name": "mine:1", "size": 3 * 2**20, "source": "made up", "created": "2026-01-02T03:04:05+00:00"}
    (image / "image.json").write_text(json.dumps(facts))
    (image / "used").touch()
    used = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC).timestamp()
    os.utime(image / "used", (used, used))
    monkeypatch.setenv("CI_DAEMON_IMAGES_DIR", str(store))
    return store


def lease_a_vm(storage: Storage, provider: Provider) -> str:
    """Park a VM as the pool does, and return its id."""
    vm_id = str(uuid.uuid4())
    lease = storage.leases.reserve_parked(vm_id, provider.name)
    provider.park(vm_id)
    assert storage.leases.parked(lease.id)
    return vm_id


def test_images_are_listed_with_the_disks_that_use_them(
    run: Run, own_store: Path, storage: Storage, capsys: pytest.CaptureFixture[str]
):
    vm_id = str(uuid.uuid4())
    storage.leases.reserve_unclaimed(vm_id, "sandbox", "mine:1", Shape())
    assert run("image", "list") == 0
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[:6] == ["mine:1", "no", "3", "1", "made", "up"]
    assert row[-2:] == ["d", "ago"]
    assert run("image", "list", "--json") == 0
    [image] = json.loads(capsys.readouterr().out)
    assert (image["bytes"], image["default"], image["used_by"]) == (3 * 2**20, False, [f"lease {vm_id}"])


def test_a_new_default_image_takes_effect_at_once(
    run: Run, own_store: Path, state: Path, capsys: pytest.CaptureFixture[str]
):
    images = open_images(state, Config(images=ImageSettings(dir=own_store)))
    assert run("image", "default") == 0
    assert capsys.readouterr().out == "debian:12 is the default image, but does not exist yet\n"
    assert run("image", "default", "mine:1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"default": "mine:1"}
    assert [images.resolve(name) for name in (None, "ubuntu:24.04", "debian:12")] == ["mine:1", "mine:1", "debian:12"]
    assert run("image", "remove", "mine:1") == 1
    assert "mine:1 is the default image: choose another one first" in capsys.readouterr().err
    assert run("image", "default", "nothing:1") == 1
    assert 'no image "nothing:1" on this host' in capsys.readouterr().err


def test_a_default_image_of_the_configuration_is_changed_there(
    run: Run, own_store: Path, state: Path, capsys: pytest.CaptureFixture[str]
):
    (state / "ci-daemon.toml").write_text('[images]\ndefault = "debian:13"\n')
    assert run("image", "default", "mine:1") == 1
    assert "images.default in the configuration is debian:13" in capsys.readouterr().err


def test_a_store_without_images_says_how_to_get_one(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("CI_DAEMON_IMAGES_DIR", str(tmp_path / "empty"))
    assert run("image", "list") == 0
    assert "run `ci-daemon image build`" in capsys.readouterr().out


def test_an_existing_image_is_not_built_again(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("image", "build") == 0
    assert capsys.readouterr().out == "the image debian:12 already exists\n"


@pytest.mark.parametrize(
    ("arguments", "base", "built"),
    [
        ((), None, ["mine:1", "debian:12"]),
        ((), "mine:1", ["mine:1"]),
        ((), "ubuntu:24.04", ["mine:1", "ubuntu:24.04"]),
        (("mine:1",), None, ["mine:1"]),
    ],
)
def test_the_image_whose_sshd_serves_vms_is_built_too(
    run: Run,
    own_store: Path,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    base: str | None,
    built: list[str],
):
    called: list[str] = []

    def build(store: ImageStore, name: str, **_: object) -> Image:
        called.append(name)
        return store.get("mine:1")

    monkeypatch.setattr(ImageStore, "build", build)
    (state / "ci-daemon.toml").write_text(f'[sandbox]\nbase_image = "{base}"\n' if base else "")
    assert run("image", "default", "mine:1") == 0
    assert run("image", "build", *arguments) == 0
    assert called == built


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "plan9:4"], 'an image "plan9:4" cannot be built'),
        (["remove", "nothing:1"], 'no image "nothing:1" on this host'),
        (["remove", "../../etc"], "is not a valid image name"),
        (["pull", "[::1]:1/any:1"], "[::1]:1/any:1 is not a valid image name: choose one with --as"),
        (["pull", "localhost:1/any:1", "--as", "any"], "any:1 cannot be pulled: the registry localhost:1 cannot be"),
    ],
)
def test_impossible_image_commands_are_refused_with_the_reason(
    run: Run, own_store: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
):
    assert run("image", *arguments) == 1
    assert message in capsys.readouterr().err


def test_an_image_is_removed(run: Run, own_store: Path, capsys: pytest.CaptureFixture[str]):
    assert run("image", "remove", "mine:1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"removed": "mine:1"}
    assert not (own_store / "mine@1").exists()


def test_an_image_that_a_lease_stands_on_stays(
    run: Run, own_store: Path, storage: Storage, capsys: pytest.CaptureFixture[str]
):
    vm_id = str(uuid.uuid4())
    storage.leases.reserve_unclaimed(vm_id, "sandbox", "mine:1", Shape())
    assert run("image", "remove", "mine:1") == 1
    assert f'image "mine:1" is in use by lease {vm_id}' in capsys.readouterr().err
    assert (own_store / "mine@1").exists()


def test_a_shared_store_needs_no_state_directory(run: Run, own_store: Path, tmp_path: Path):
    assert main(["--state-dir", str(tmp_path / "elsewhere"), "image", "remove", "mine:1"]) == 0


def test_an_unbootable_import_is_refused_with_the_reason(
    run: Run, own_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    archive = tmp_path / "root.tar"
    with tarfile.open(archive, "w") as tar:
        tar.addfile(tarfile.TarInfo("hello"), io.BytesIO())
    assert run("image", "import", "small:1", str(archive)) == 1
    assert '"small:1" has no /bin/sh' in capsys.readouterr().err
    assert [path.name for path in own_store.iterdir() if not path.name.startswith(".")] == ["mine@1"]


def test_an_import_says_its_size_and_origin(
    run: Run, own_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "root.tar").write_bytes(layer(entry("bin/sh")))
    assert run("image", "import", "small:1", str(tmp_path / "root.tar")) == 0
    assert capsys.readouterr().out == (f"made the image small:1: less than 1 MiB, imported from {tmp_path}/root.tar\n")


def test_import_reads_as_the_caller_and_writes_as_the_owner(
    run: Run, own_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    archive = tmp_path / "root.tar"
    tarfile.open(archive, "w").close()
    monkeypatch.setattr("ci_daemon.command.support.command_classes.become_owner", lambda _: archive.unlink())
    assert run("image", "import", "small:1", str(archive)) == 1
    assert '"small:1" has no /bin/sh' in capsys.readouterr().err
    assert not archive.exists()


def killed(storage: Storage) -> list[tuple[str, str, str | None]]:
    """Return the subject, note and organization of the entries of killed VMs, newest first."""
    operator = Session().operator
    wanted = AuditFilter(actor=operator, action="killVm")
    return [(each.subject, each.note, each.organization) for each in storage.audit.page(10, None, wanted).rows]


def test_a_leased_vm_is_listed_and_killed(
    run: Run, storage: Storage, provider: Provider, capsys: pytest.CaptureFixture[str]
):
    vm_id = lease_a_vm(storage, provider)
    assert run("lease", "list", "--json") == 0
    [listed] = json.loads(capsys.readouterr().out)
    assert (listed["id"], listed["state"], listed["job"], listed["cents"]) == (vm_id, "parked", None, 0)
    assert run("lease", "list") == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == [vm_id[:8], "parked"]
    assert run("lease", "kill", vm_id[:3]) == 1
    assert "give at least 4 letters" in capsys.readouterr().err
    assert run("lease", "kill", vm_id[:8], "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"killed": [vm_id]}
    assert killed(storage) == [(vm_id, "box", None)]
    assert storage.leases.live() == []
    assert list(provider.list()) == []


def test_the_list_shows_shapes_whole_on_80_columns(storage: Storage, state: Path):
    world = World(storage, ManualClock(), new_pipeline(storage, "A large organization"))
    world.assign(world.job(world.build()), lease_uuid=str(uuid.uuid4()))
    program = f"from ci_daemon.command import main; main(['--state-dir', {str(state)!r}, 'lease', 'list'])"
    listed = shown(program, TERM="dumb")
    [heading, row] = listed.splitlines()
    assert len(heading) <= 80
    assert "2 CPU, 4 GB" in row


def test_a_held_vm_is_listed_as_such_and_its_hold_ends_with_it(
    run: Run, storage: Storage, provider: Provider, capsys: pytest.CaptureFixture[str]
):
    clock = ManualClock()
    world = World(storage, clock, new_pipeline(storage, "Held"))
    vm_id = str(uuid.uuid4())
    job = world.job(world.build())
    lease = world.assign(job, lease_uuid=vm_id)
    provider.create(VmSpec(vm_id, "debian:12", network=False))
    assert storage.leases.start(lease.id, job.id)
    world.finish(job, lease, to=JobState.FAILED, held_seconds=600)
    assert run("lease", "list", "--json") == 0
    [listed] = json.loads(capsys.readouterr().out)
    assert (listed["id"], listed["state"]) == (vm_id, "held")
    assert run("lease", "kill", vm_id) == 0
    assert (storage.leases.live(), storage.holds.open(), list(provider.list())) == ([], [], [])
    assert killed(storage) == [(vm_id, "held/web/1 step, box", "held")]
    assert [entry.description for entry in storage.ledger.entries(world.pipeline.organization_id)] == [
        "web #1 step",
        "web #1 step, held",
    ]
    assert run("ledger", "verify") == 0


def test_kill_all_ends_vms_that_no_lease_knows_of_too(
    run: Run, storage: Storage, provider: Provider, capsys: pytest.CaptureFixture[str]
):
    leased = lease_a_vm(storage, provider)
    lost = str(uuid.uuid4())
    provider.create(VmSpec(lost, "debian:12", network=False))
    assert run("lease", "kill", "--all", "--json") == 0
    assert set(json.loads(capsys.readouterr().out)["killed"]) == {leased, lost}
    assert killed(storage) == [(vm_id, "box", None) for vm_id in sorted((leased, lost), reverse=True)]
    assert list(provider.list()) == []


def test_kill_all_ends_what_it_can_if_the_engine_is_away(
    run: Run, state: Path, storage: Storage, provider: Provider, capsys: pytest.CaptureFixture[str]
):
    lease_a_vm(storage, provider)
    (state / "incus").mkdir()
    assert run("lease", "kill", "--all") == 1
    printed = capsys.readouterr()
    assert printed.out == "ended 1 VM\n"
    assert "there may be more VMs: the engine does not answer" in printed.err
    assert list(provider.list()) == []


def test_a_missing_lease_is_reported(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("lease", "kill", "nobody") == 1
    assert "no live lease has the id nobody" in capsys.readouterr().err


def test_the_member_of_a_vm_is_listed_where_there_are_several(
    run: Run, storage: Storage, capsys: pytest.CaptureFixture[str]
):
    lease = storage.leases.reserve_parked("vm", "incus")
    assert run("lease", "list") == 0
    assert "member" not in capsys.readouterr().out
    storage.leases.parked(lease.id, "m2")
    assert run("lease", "list") == 0
    header, row = capsys.readouterr().out.splitlines()
    assert ("member" in header.split(), "m2" in row.split()) == (True, True)
    assert run("lease", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["member"] == "m2"
