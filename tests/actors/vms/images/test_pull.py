from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from actors.vms import Connection, ImageError, ImageStore, SandboxProvider, VmError, VmSpec, in_job
from actors.vms.host import IdMap, run_mapped
from actors.vms.images import InsufficientDisk, PullOptions, Reference
from actors.vms.images import registry as images_of_registries
from actors.vms.images.image import ImageProgram
from actors.vms.images.registry import program_of, read_json
from storage import SystemClock
from tests.processes import ended
from tests.registry import HERE, Registry, busybox, entry, layer, link, registry, small_system


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry")) as served:
        yield served


@pytest.fixture(scope="module")
def system(image_store: ImageStore, idmap: IdMap) -> list[bytes]:
    return small_system(image_store.path("debian:12"), idmap)


@pytest.fixture
def store(tmp_path: Path, idmap: IdMap) -> Iterator[ImageStore]:
    """A store in a home that the VMs' ids cannot enter."""
    tmp_path.chmod(0o700)
    yield ImageStore(tmp_path / "images", idmap)
    run_mapped(["rm", "-rf", "images"], idmap=idmap.with_caller(), cwd=tmp_path)


@pytest.fixture
def run_in(
    store: ImageStore, image_store: ImageStore, tmp_path: Path, idmap: IdMap
) -> Iterator[Callable[[str, str], str]]:
    """Run a command in a VM of an image, and return its output."""

    class Both:
        def path(self, name: str) -> Path:
            return (store if name in store.names() else image_store).path(name)

    clock = SystemClock()
    provider = SandboxProvider(tmp_path / "sandbox", Both(), idmap, clock)

    def run(image: str, command: str) -> str:
        provider.create(VmSpec("vm", image, network=False))
        with Connection(provider.connect("vm"), clock) as connection:
            return connection.run(in_job(command), timeout=30).stdout.decode()

    yield run
    provider.destroy("vm")
    run_mapped(["rm", "-rf", "sandbox"], idmap=idmap.with_caller(), cwd=tmp_path)


def terms_with(**options: Any) -> PullOptions:
    return PullOptions(**{"max_bytes": 10 * 2**30, "timeout": 60.0} | options)


def pull(store: ImageStore, reference: str, name: str = "pulled:1", **options: Any) -> str:
    """Pull an image, and return its progress, one line for each message."""
    lines: list[str] = []
    terms = terms_with(progress=lines.append, **options)
    store.pull(Reference.parse(reference), name, terms)
    return "\n".join(lines)


def left_in(store: ImageStore, tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "images").iterdir() if path.name != ".locks")


def test_a_vm_starts_from_stacked_layers(
    served: Registry, system: list[bytes], store: ImageStore, idmap: IdMap, run_in: Callable[[str, str], str]
):
    lower = layer(entry("etc/kept", "lower"), entry("etc/gone", "lower"), entry("srv/data/old", "lower"))
    upper = layer(
        entry("etc/kept", "upper", uid=42, mode=0o4711), entry("etc/.wh.gone"), entry("srv/data/.wh..wh..opq")
    )
    reference = served.add("whole:1", *system, lower, upper, env={"PATH": "/opt/bin:/bin", "NOTE": "a b=c"})
    assert pull(store, reference).splitlines()[-1].startswith("unpacking")
    (image,) = store.list()
    assert image.source == f"pulled {reference}"
    assert image.digest == f"{reference.rpartition(':')[0]}@{served.digest(reference)}"
    assert image.environment == {"PATH": "/opt/bin:/bin", "NOTE": "a b=c"}
    kept = (store.path("pulled:1") / "etc" / "kept").stat()
    assert (kept.st_uid, kept.st_gid) == (idmap.root_uid + 42, idmap.gids[0].outside + 42)
    assert run_in("pulled:1", "cat /etc/kept; stat -c ' %u %a' /etc/kept; cat /etc/gone /srv/data/old; id -u") == (
        "upper 42 4711\n0\n"
    )


def test_an_image_without_a_shell_is_refused_and_leaves_nothing(
    served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path
):
    with pytest.raises(ImageError, match="has no /bin/sh, so no command can run in it: take an image"):
        pull(store, served.add("poor:1", *system, layer(entry("usr/bin/.wh.sh"))))
    assert left_in(store, tmp_path) == []


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("{here}/nothing:1", "the registry has no such image"),
        ("127.0.0.1:1/any:1", "the registry 127.0.0.1:1 cannot be reached"),
        ("{here}/foreign:1", "is for s390x, and this machine is"),
        ("not a reference", "is not a valid image reference"),
        ("-v", "is not a valid image reference"),
        ("Debian", "is not a valid image reference"),
    ],
)
def test_a_failed_pull_is_reported_with_the_remedy(
    served: Registry, store: ImageStore, tmp_path: Path, reference: str, message: str
):
    served.add("foreign:1", layer(entry("etc/x")), architecture="s390x")
    with pytest.raises(VmError, match=message.format(here=served.address)):
        pull(store, reference.format(here=served.address))
    assert list(tmp_path.glob("images/pulled*")) == list(tmp_path.glob("images/.making*")) == []


def test_a_layer_cannot_write_outside_its_tree(
    served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path, idmap: IdMap
):
    victim = tmp_path / "images" / "victim"
    victim.parent.mkdir()
    run_mapped(["mkdir", "-m", "755", "victim"], idmap=idmap.with_caller(), cwd=victim.parent)
    astray = layer(entry("usr/.wh.sbin"), link("usr/sbin", str(victim)), entry("usr/sbin/evil", "x"))
    with suppress(VmError):
        pull(store, served.add("astray:1", *system, astray))
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_the_next_pull_removes_the_orphans_of_an_interrupted_one(
    served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path, end: signal.Signals
):
    reference = served.add("slow:1", *system)
    program = (
        "import signal\nfrom pathlib import Path\nfrom actors.vms import ImageStore\n"
        "from actors.vms.images import PullOptions, Reference\nfrom actors.vms.host import IdMap\n"
        "def say(line):\n    print(line, flush=True)\n    line.startswith('unpacking') and signal.pause()\n"
        f"ImageStore(Path({str(tmp_path / 'images')!r}), IdMap.of_caller())"
        f".pull(Reference.parse({reference!r}), 'slow:1', PullOptions(10**10, 60, progress=say))\n"
    )
    with ended(
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    ) as child:
        assert child.stdout is not None
        while not (line := child.stdout.readline()).startswith(b"unpacking"):
            assert line
        child.send_signal(end)
        child.wait(60)
    assert (left_in(store, tmp_path) == []) == (end is signal.SIGINT)
    store.sweep()
    assert left_in(store, tmp_path) == []


def test_only_the_environment_of_a_configuration_applies_to_jobs(
    served: Registry, system: list[bytes], store: ImageStore, run_in: Callable[[str, str], str]
):
    settings = {"User": "1000", "WorkingDir": "/srv", "Entrypoint": ["/bin/false"], "Cmd": ["/bin/false"]}
    pull(store, served.add("service:1", *system, env={"NOTE": "kept"}, **settings))
    assert store.get("pulled:1").environment == {"NOTE": "kept"}
    assert store.get("pulled:1").program == ImageProgram(("/bin/false",), ("/bin/false",), "1000", "/srv")
    assert run_in("pulled:1", "id -u; pwd") == "0\n/\n"


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"StopSignal": "SIGINT", "ExposedPorts": {"5432/tcp": {}}}, (2, 5432)),
        ({"StopSignal": "QUIT", "ExposedPorts": {"6379": {}}}, (3, 6379)),
        ({"StopSignal": "SIGRTMIN+3", "ExposedPorts": {"80/tcp": {}, "443/tcp": {}}}, (signal.SIGRTMIN + 3, None)),
        ({"StopSignal": "28", "ExposedPorts": {"53/udp": {}}}, (28, None)),
        ({"StopSignal": "SIGNOTHING", "ExposedPorts": {"0/tcp": {}}}, (15, None)),
        ({"StopSignal": "SIGRTMIN+99", "ExposedPorts": {"70000/tcp": {}}}, (15, None)),
        ({"StopSignal": "0", "ExposedPorts": {"8000-8001/tcp": {}}}, (15, None)),
        ({"StopSignal": None, "ExposedPorts": None}, (15, None)),
        ({"StopSignal": ["TERM"]}, (15, None)),
    ],
)
def test_end_and_port_of_a_program_are_read(settings: dict[str, Any], found: tuple[int, int | None]) -> None:
    """Only one port tells where it listens; a signal that there is not is TERM."""
    program = program_of(settings)
    assert (program.stop_signal, program.port) == found


def test_a_tree_of_busybox_runs_commands_but_serves_no_vms(
    served: Registry, store: ImageStore, run_in: Callable[[str, str], str]
):
    pull(store, served.add("busybox:1", busybox()))
    assert not store.can_be_base("pulled:1")
    assert run_in("pulled:1", "readlink /proc/$$/exe; id -u") == "/bin/busybox\n0\n"


def test_of_a_list_the_image_for_this_machine_is_pulled(
    served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path
):
    foreign = [layer(entry("etc/foreign"))]
    reference = served.add_list("many:1", {"s390x": foreign, HERE: [*system, layer(entry("etc/ours"))]})
    pull(store, reference)
    assert (store.path("pulled:1") / "etc" / "ours").exists()
    pinned = reference.removesuffix(":1") + "@" + served.digest(reference)
    pull(store, pinned, pinned)
    assert (store.path(pinned) / "etc" / "ours").exists()
    with pytest.raises(VmError, match=f"is for ppc64le, s390x, and this machine is {HERE}"):
        pull(store, served.add_list("others:1", {"s390x": foreign, "ppc64le": foreign}))


def test_a_registry_gets_the_login_of_skopeos_own_file(
    system: list[bytes], store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with registry(tmp_path / "registry", login="ada:lovelace") as closed:
        reference = closed.add("secret:1", *system)
        with pytest.raises(VmError, match=f"requires a login.*run `skopeo login --authfile /.* {closed.address}` as "):
            pull(store, reference)
        monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
        login = ["skopeo", "login", "--tls-verify=false", "-u", "ada", "-p", "lovelace", closed.address]
        subprocess.run(login, check=True, capture_output=True)
        pull(store, reference)
    assert store.names() == ["pulled:1"]


def test_a_registry_that_says_nothing_is_given_up(store: ImageStore, tmp_path: Path):
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(VmError, match=f"the registry {host} sent nothing for 0.5 s"):
            pull(store, f"{host}/any:1", timeout=0.5)
    assert left_in(store, tmp_path) == []


def zeros(size: int) -> bytes:
    return layer((entry("srv/zeros")[0], bytes(size)))


@pytest.mark.parametrize(
    ("content", "max_bytes", "message"),
    [
        (lambda: Random(1).randbytes(3_000_000), 1_000_000, "is larger than allowed: it has .* GB packed"),
        (lambda: zeros(200_000_000), 20_000_000, "is larger than allowed: it has more than .* GB unpacked"),
    ],
    ids=["packed", "unpacked"],
)
def test_more_than_is_allowed_is_refused_and_leaves_nothing(
    served: Registry, store: ImageStore, tmp_path: Path, content: Callable[[], bytes], max_bytes: int, message: str
):
    reference = served.add("large:1", content())
    with pytest.raises(ImageError, match=message):
        pull(store, reference, max_bytes=max_bytes)
    assert left_in(store, tmp_path) == []


def test_more_layers_than_are_unpacked_are_refused(
    served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(images_of_registries, "_MAX_LAYERS", 3)
    pull(store, served.add("layered:1", *system, layer(entry("etc/x"))))
    with pytest.raises(VmError, match="it has more than 3 layers"):
        pull(store, served.add("layered:2", *system, layer(entry("etc/x")), layer(entry("etc/y"))))
    assert left_in(store, tmp_path) == ["pulled@1"]


def test_more_files_than_are_kept_are_refused(
    served: Registry, store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(images_of_registries, "_MAX_FILES", 100)
    with pytest.raises(ImageError, match="it has more than 100 files"):
        pull(store, served.add("crowded:1", layer(*(entry(f"srv/{number}") for number in range(101)))))
    assert left_in(store, tmp_path) == []


def test_an_image_that_the_disk_has_no_room_for_is_not_fetched(served: Registry, store: ImageStore, tmp_path: Path):
    with pytest.raises(InsufficientDisk, match="the host's disk") as caught:
        pull(store, served.add("roomy:1", zeros(1000)), keep_free=2**60)
    assert caught.value.lacking > 2**50
    assert left_in(store, tmp_path) == []


def test_devices_of_a_layer_become_plain_files(
    served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path
):
    node = tarfile.TarInfo("srv/disk")
    node.type, node.devmajor, node.devminor, node.mode = tarfile.BLKTYPE, 8, 0, 0o666
    pull(store, served.add("devices:1", *system, layer(node)))
    assert not (store.path("pulled:1") / "srv" / "disk").is_block_device()


class Stopped(Exception):
    """Raised by a check to end a pull."""


@pytest.mark.parametrize("at", ["pulling", "unpacking"])
def test_an_unwanted_pull_is_aborted_at_once(served: Registry, store: ImageStore, tmp_path: Path, at: str):
    reference = served.add("unwanted:1", zeros(200_000_000))
    lines: list[str] = []

    def check() -> None:
        if any(line.startswith(at) for line in lines):
            raise Stopped

    with pytest.raises(Stopped):
        store.pull(Reference.parse(reference), "x", terms_with(progress=lines.append, check=check))
    assert left_in(store, tmp_path) == []


def test_a_repeated_pull_replaces_an_image_that_is_not_in_use(
    served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path
):
    terms = terms_with()
    reference = Reference.parse(served.add("moving:1", *system, layer(entry("etc/old"))))
    store.pull_missing(reference, "moving:1", terms)
    served.add("moving:1", *system, layer(entry("etc/new")))
    assert store.pull_missing(reference, "moving:1", terms).on_demand
    assert (store.path("moving:1") / "etc" / "old").exists()
    with pytest.raises(ImageError, match=r"is in use by lease 1: pull it again when that has ended"):
        store.pull(reference, "moving:1", terms, users=lambda: ["lease 1"])
    assert (store.path("moving:1") / "etc" / "old").exists()
    assert not store.pull(reference, "moving:1", terms).on_demand
    assert (store.path("moving:1") / "etc" / "new").exists()
    assert left_in(store, tmp_path) == ["moving@1"]


def test_concurrent_pulls_of_an_image_are_one(served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path):
    reference = Reference.parse(served.add("popular:1", *system))
    lines: list[str] = []
    pullers = [
        threading.Thread(
            target=store.pull_missing,
            args=(reference, "popular:1", terms_with(progress=lines.append)),
        )
        for _ in range(3)
    ]
    for each in pullers:
        each.start()
    for each in pullers:
        each.join()
    assert sum(line.startswith("unpacking") for line in lines) == 1


def test_an_unused_image_pulled_for_a_job_is_removed(
    served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path
):
    reference = Reference.parse(served.add("seldom:1", *system))
    store.pull_missing(reference, "seldom:1", terms_with())
    store.pull(reference, "kept:1", terms_with())
    long_ago, soon = datetime.now(UTC) - timedelta(days=1), datetime.now(UTC) + timedelta(days=1)
    assert not store.remove_unused("seldom:1", long_ago)
    assert store.use("seldom:1")
    used = store.get("seldom:1").used
    assert used is not None
    assert not store.remove_unused("seldom:1", used)
    assert not store.remove_unused("kept:1", soon)
    assert store.remove_unused("seldom:1", soon)
    assert not store.use("seldom:1")
    assert left_in(store, tmp_path) == ["kept@1"]


HOSTILE = {"deep": b"[" * 50_000, "many": b"[" + b"[]," * 100_000 + b"0]", "long": b"[" + b" " * (8 << 20) + b"]"}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_manifest_is_not_parsed(tmp_path: Path, hostile: bytes):
    file = tmp_path / "index.json"
    file.write_bytes(hostile)
    with pytest.raises(ValueError, match=r"nested too deeply|more than 100000 lists|Expecting value"):
        read_json(file)
