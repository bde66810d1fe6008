"""Jobs that build and run images, with Buildah and Podman, and use no more of the kernel than others."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import tarfile
from functools import lru_cache
from pathlib import Path

import bcrypt
import pytest

from actors.vms import CONTAINER_VARIABLES, CommandSpec, follow, lay_folder, pack_folder, start
from storage import Shape
from tests.programs import unpacked_libraries, unpacked_program
from tests.vms.contract.conftest import Boot, Vm
from tests.vms.contract.kernel_uses import CALLS, DEVICES, FILE_SYSTEMS

pytestmark = pytest.mark.real

PROGRAMS = ("buildah", "podman", "crun", "conmon", "busybox", "docker-registry")
DOCKER = ("docker", "dockerd", "containerd", "containerd-shim-runc-v2", "runc", "busybox")
OF_EVERY_IMAGE = re.compile(r"lib(c|m|dl|pthread|rt|resolv)\.so|ld-linux")
ENVIRONMENT = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
ROOM = Shape(memory_gb=2)

IMAGE_OF_TWO_STAGES = r"""
set -e
ldconfig
mkdir -p /etc/containers /ctx/base/bin
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >/etc/containers/policy.json
cd /ctx
cp "$(command -v busybox)" base/bin/
for name in sh cat id chown mkdir ls echo; do ln -sf busybox base/bin/$name; done
cat >Containerfile <<'END'
FROM scratch AS build
COPY base/ /
RUN mkdir /out && echo "made by $(id -u)" >/out/result && chown 1000:1000 /out/result
FROM scratch
COPY base/ /
COPY --from=build /out/result /result
CMD ["/bin/cat", "/result"]
END
"""

LOGIN = """
echo "$USERS" >/tmp/users
echo "$REGISTRY" >/tmp/registry.yml
docker-registry serve /tmp/registry.yml >/tmp/registry.log 2>&1 &
grep -q "listening on" <(tail -n +1 -F /tmp/registry.log 2>/dev/null)
echo "$TOKEN" | buildah login --tls-verify=false --username ci --password-stdin localhost:5000 >/dev/null
"""
TOKEN = "the-secret-of-ci"
REGISTRY = {
    "version": "0.1",
    "storage": {"filesystem": {"rootdirectory": "/srv"}},
    "http": {"addr": "127.0.0.1:5000", "secret": "none"},
    "auth": {"htpasswd": {"realm": "registry", "path": "/tmp/users"}},
}


DAEMON = """
mount -t cgroup2 none /sys/fs/cgroup
dockerd --bridge=none --iptables=false --ip6tables=false --storage-driver=vfs >/tmp/dockerd.log 2>&1 &
until docker info >/dev/null 2>&1; do sleep 1; done
"""


@lru_cache
def programs(names: tuple[str, ...] = PROGRAMS) -> bytes:
    """Return a tar of Debian's programs for images, with the libraries that the usual image lacks."""
    found = {f"usr/local/bin/{name}": unpacked_program(name) for name in names}
    environment = {**os.environ, "LD_LIBRARY_PATH": unpacked_libraries()}
    for program in tuple(found.values()):
        linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False, env=environment).stdout
        for library in re.findall(r"=> (/\S+)", linked):
            if not OF_EVERY_IMAGE.search(library):
                found[f"usr/local/lib/{Path(library).name}"] = library
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, path in found.items():
            info = tar.gettarinfo(str(Path(path).resolve()), name)
            info.uid = info.gid = 0
            with Path(path).open("rb") as file:
                tar.addfile(info, file)
    return packed.getvalue()


def with_programs(boot: Boot) -> Vm:
    vm = boot(containers=True, shape=ROOM)
    assert vm.run("tar -x -C /", programs()) == (0, b"")
    return vm


def command(vm: Vm, script: str) -> tuple[int, str]:
    """Run the command of a job that builds images; return its exit code and output."""
    users = f"ci:{bcrypt.hashpw(TOKEN.encode(), bcrypt.gensalt(4)).decode()}"
    given = {"TOKEN": TOKEN, "USERS": users, "REGISTRY": json.dumps(REGISTRY)}
    with vm.connect() as connection:
        start(connection, CommandSpec(script, env={**ENVIRONMENT, **CONTAINER_VARIABLES, **given}))
        output = follow(connection)
        text = b"".join(output).decode()
        assert output.exited is not None
        return output.exited.exit_code, text


def test_a_job_builds_an_image_pushes_it_and_runs_it(boot: Boot):
    script = """
    buildah build --quiet --tag localhost:5000/two:1 .
    buildah push --quiet --tls-verify=false localhost:5000/two:1
    buildah rmi --all >/dev/null
    podman run --quiet --rm --tls-verify=false localhost:5000/two:1
    podman run --rm localhost:5000/two:1 sh -c 'echo "process $$"'
    podman build --quiet --tag again . >/dev/null
    podman run --rm again ls -ln /result
    """
    exit_code, output = command(with_programs(boot), IMAGE_OF_TWO_STAGES + LOGIN + script)
    assert exit_code == 0, output
    _, made, process, listed = output.splitlines()
    assert (made, process) == ("made by 0", "process 1")
    assert listed.split()[2:4] == ["1000", "1000"]


def test_the_next_job_runs_the_image_and_has_no_login(boot: Boot):
    builder = with_programs(boot)
    script = """
    buildah build --quiet --tag two .
    podman login --tls-verify=false --username ci --password-stdin localhost:5000 <<<"$TOKEN"
    buildah login --get-login localhost:5000
    """
    exit_code, output = command(builder, IMAGE_OF_TWO_STAGES + LOGIN + script)
    assert (exit_code, output.splitlines()[-1]) == (0, "ci"), output
    heir = boot(builder.snapshot("with-image"), containers=True, shape=ROOM)
    script = "podman run --rm --pull never localhost/two && find / -xdev -name auth.json; ls -A /run/user/0"
    assert command(heir, script) == (0, "made by 0\n")


def test_layers_in_a_kept_folder_are_a_cache_of_later_builds(boot: Boot):
    """One program takes those that the other has made. The folder is in root's home."""
    folder, builds = "~/.layers", ("buildah --root ~/.layers build", "podman --root ~/.layers build")
    builder = with_programs(boot)
    exit_code, output = command(builder, f"{IMAGE_OF_TWO_STAGES} {builds[0]} --layers --tag two .")
    assert exit_code == 0, output
    with builder.connect() as connection:
        kept = b"".join(pack_folder(connection, folder, most_files=10_000, most_bytes=1 << 28, timeout=60))
    later = with_programs(boot)
    with later.connect() as connection:
        assert lay_folder(connection, folder, [kept], timeout=60)
    again = "; ".join(f"{build} --layers --tag two . | grep -A1 'RUN mkdir'" for build in builds)
    exit_code, output = command(later, f"{IMAGE_OF_TWO_STAGES} {again}; podman --root ~/.layers run --rm two")
    assert exit_code == 0, output
    assert (output.count("Using cache"), output.splitlines()[-1]) == (2, "made by 0")


@pytest.mark.own_kernel
def test_docker_builds_and_runs_an_image_in_a_machine(boot: Boot):
    """By the lines of the manual."""
    manual = (Path(__file__).parents[3] / "docs" / "language.md").read_text()
    assert all(f"      {line}\n" in manual for line in DAEMON.split("\n") if line)
    vm = boot(shape=ROOM)
    assert vm.run("tar -x -C /", programs(DOCKER)) == (0, b"")
    build = "docker build --network host --tag two . && docker run --network host --rm two"
    exit_code, output = command(vm, f"{IMAGE_OF_TWO_STAGES} mv Containerfile Dockerfile; {DAEMON} {build}")
    assert (exit_code, output.splitlines()[-1]) == (0, "made by 0"), output


@pytest.mark.shared_kernel
@pytest.mark.parametrize("uses", [FILE_SYSTEMS, DEVICES, CALLS], ids=["file systems", "devices", "calls"])
def test_a_job_that_builds_images_may_use_no_more(boot: Boot, uses: str):
    one, other = boot(), boot(containers=True)
    assert json.loads(other.python(uses)) == json.loads(one.python(uses))


@pytest.mark.shared_kernel
def test_a_job_that_builds_images_has_no_other_rights(boot: Boot):
    """Its user namespace has the ids and capabilities of every job's, and it makes none below."""
    shown = (
        "cat /proc/self/uid_map /proc/sys/user/max_user_namespaces; grep -E '^(Cap|Seccomp|NoNew)' /proc/self/status"
    )
    one, other = boot(), boot(containers=True)
    assert other.says(shown) == one.says(shown)
    assert other.run("unshare --user true")[0] != 0
