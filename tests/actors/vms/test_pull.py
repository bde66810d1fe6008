from __future__ import annotations

import io
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.vms import Connection, ImageError, ImageStore, VmError, VmSpec
from actors.vms.sandbox.processes import Identity
from actors.vms.sandbox.provider import SandboxProvider, SandboxSettings
from actors.vms.sandbox.userns import IdMap, run_mapped
from storage import SystemClock
from tests.actors.vms.registry import Registry, entry, layer, link, registry, small_system

NO_SSHD = layer(entry("usr/sbin/.wh.sshd"), entry("opt/.wh..wh..opq"))


@pytest.fixture(scope="module")
def served() -> Iterator[Registry]:
    with registry() as served:
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
def run_in(store: ImageStore, tmp_path: Path, idmap: IdMap) -> Iterator[Callable[[str, str], str]]:
    """Run a command in a VM of an image, and return what it printed."""
    clock = SystemClock()
    provider = SandboxProvider(tmp_path / "sandbox", store, idmap, clock)

    def run(image: str, command: str) -> str:
        provider.create(VmSpec("vm", image, network=False))
        with Connection(provider.connect("vm"), clock) as connection:
            return connection.run(command, timeout=30).stdout.decode()

    yield run
    provider.destroy("vm")
    run_mapped(["rm", "-rf", "sandbox"], idmap=idmap.with_caller(), cwd=tmp_path)


def pull(store: ImageStore, reference: str, name: str = "pulled:1") -> str:
    """Pull an image and return what was said meanwhile."""
    said: list[str] = []
    store.pull(reference, name, SandboxSettings(), said.append)
    return "\n".join(said)


def left_in(store: ImageStore, tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "images").iterdir() if path.name != ".locks")


def test_layers_lie_one_over_the_other_and_a_vm_starts_from_them(
    served: Registry, system: list[bytes], store: ImageStore, idmap: IdMap, run_in: Callable[[str, str], str]
):
    lower = layer(entry("etc/kept", "lower"), entry("etc/gone", "lower"), entry("srv/data/old", "lower"))
    upper = layer(
        entry("etc/kept", "upper", uid=42, mode=0o4711), entry("etc/.wh.gone"), entry("srv/data/.wh..wh..opq")
    )
    reference = served.add("whole:1", *system, lower, upper, env={"PATH": "/opt/bin:/bin", "NOTE": "a b=c"})
    assert "installing" not in pull(store, reference)
    (image,) = store.list()
    assert image.source == f"pulled {reference}"
    assert image.environment == {"PATH": "/opt/bin:/bin", "NOTE": "a b=c"}
    kept = (store.path("pulled:1") / "etc" / "kept").stat()
    assert (kept.st_uid, kept.st_gid) == (idmap.root_uid + 42, idmap.gids[0].outside + 42)
    assert run_in("pulled:1", "cat /etc/kept; stat -c ' %u %a' /etc/kept; cat /etc/gone /srv/data/old; id -u") == (
        "upper 42 4711\n0\n"
    )
    with pytest.raises(ImageError, match='there is an image "pulled:1" already'):
        pull(store, reference)


def test_what_a_vm_needs_and_it_lacks_its_own_package_manager_installs(
    served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path, run_in: Callable[[str, str], str]
):
    apk = '#!/bin/sh\necho "apk $*"\ncp /srv/sshd /usr/sbin/sshd\n[ -e /dev/null ] && echo it >/etc/apk-was-here\n'
    kept = layer(entry("usr/sbin/apk", apk), (entry("srv/sshd")[0], sshd_of(system)))
    reference = served.add("bare:1", *system, NO_SSHD, kept)
    assert "apk add --no-cache openssh-server" in pull(store, reference)
    assert left_in(store, tmp_path) == ["pulled@1"]
    assert sorted(path.name for path in (tmp_path / "images" / "pulled@1").iterdir()) == ["image.json", "tree"]
    assert run_in("pulled:1", "cat /etc/apk-was-here; stat -c %a /root") == "it\n700\n"


def sshd_of(system: list[bytes]) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(system[1])) as tar:
        found = tar.extractfile("usr/sbin/sshd")
        assert found is not None
        return found.read()


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ([NO_SSHD], "lacks sshd, which a VM needs and which cannot be installed in it: it has neither apt-get nor apk"),
        (
            [NO_SSHD, layer(entry("usr/bin/apt-get", "#!/bin/sh\necho E: no network\nexit 100\n"))],
            "cannot be installed in it: .*E: no network; install them in it yourself",
        ),
        ([layer(entry("usr/bin/.wh.sh"))], "has no shell"),
    ],
)
def test_what_cannot_be_made_fit_is_refused_and_leaves_nothing(
    served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path, extra: list[bytes], said: str
):
    with pytest.raises(ImageError, match=said):
        pull(store, served.add("poor:1", *system, *extra))
    assert left_in(store, tmp_path) == []


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("{here}/nothing:1", "the registry has no such image"),
        ("docker://{here}/private:1", "run `skopeo login {here}`"),
        ("127.0.0.1:1/any:1", "the registry 127.0.0.1:1 cannot be reached"),
        ("{here}/foreign:1", "is for s390x, and this machine is"),
        ("not a reference", "names no image of a registry"),
        ("-v", "names no image of a registry"),
        ("Debian", "names no image of a registry"),
    ],
)
def test_what_cannot_be_pulled_is_told_with_what_to_do(
    served: Registry, store: ImageStore, tmp_path: Path, reference: str, said: str
):
    served.add("foreign:1", layer(entry("etc/x")), architecture="s390x")
    with pytest.raises(VmError, match=said.format(here=served.address)):
        pull(store, reference.format(here=served.address))
    assert list(tmp_path.glob("images/pulled*")) == list(tmp_path.glob("images/.making*")) == []


def test_a_layer_cannot_have_anything_written_outside_of_its_tree(
    served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path, idmap: IdMap
):
    victim = tmp_path / "images" / "victim"
    victim.parent.mkdir()
    run_mapped(["mkdir", "-m", "755", "victim"], idmap=idmap.with_caller(), cwd=victim.parent)
    astray = layer(entry("usr/.wh.sbin"), link("usr/sbin", str(victim)), entry("usr/sbin/evil", "x"))
    with pytest.raises(VmError):
        pull(store, served.add("astray:1", *system, astray))
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_pull_that_is_ended_in_the_middle_leaves_nothing_by_the_next(
    served: Registry, system: list[bytes], store: ImageStore, tmp_path: Path, end: signal.Signals
):
    reference = served.add("slow:1", *system, NO_SSHD, layer(entry("usr/bin/apk", "#!/bin/sh\nexec sleep 1000\n")))
    program = (
        "import sys\nfrom pathlib import Path\nfrom actors.vms import ImageStore\n"
        "from actors.vms.sandbox.provider import SandboxSettings\nfrom actors.vms.sandbox.userns import IdMap\n"
        f"ImageStore(Path({str(tmp_path / 'images')!r}), IdMap.of_caller())"
        f".pull({reference!r}, 'slow:1', SandboxSettings(), lambda line: print(line, flush=True))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        while "apk" not in (line := child.stdout.readline().decode()):
            assert line
        (lock,) = tmp_path.glob("images/.making-slow@1/sandbox/vms/*/lock")
        processes = [Identity(*map(int, line.split())) for line in lock.read_text().splitlines()]
        child.send_signal(end)
    assert (left_in(store, tmp_path) == []) == (end is signal.SIGINT)
    store.sweep()
    assert left_in(store, tmp_path) == []
    assert not any(process.alive for process in processes)
