"""Building images with the package sources of the host."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.machinery import FrozenImporter
from pathlib import Path

import pytest

from actors.vms import ImageStore, VmError
from actors.vms.host import IdMap
from actors.vms.images import RELEASES, debian
from tests.actors.vms.images.trees import hidden

ACTORS = Path(__file__).parents[4] / "actors"
PROGRAMS = [
    *(ACTORS / "vms/guest").glob("*.py"),
    *(ACTORS / "vms/launcher").glob("*.py"),
    *(ACTORS / "render/guest").glob("*.py"),
]


def imported(program: Path) -> Iterator[str]:
    """The modules that a program imports, by name."""
    for node in ast.walk(ast.parse(program.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


class Refusing(BaseHTTPRequestHandler):
    """A proxy that refuses every request."""

    def do_GET(self) -> None:
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        pass


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
        assert image_store.can_be_base("debian:12")
        facts = next(image for image in image_store.list() if image.name == "debian:12")
        assert facts.size < 240 << 20

    def test_what_programs_in_vms_import_is_compiled(self, image_store: ImageStore):
        """Otherwise each VM would compile it anew as it starts. What is frozen is part of Python's program."""
        (library,) = (image_store.path("debian:12") / "usr/lib").glob("python3.*")
        tag = library.name.replace("python", "cpython-").replace(".", "")
        names = {name for program in PROGRAMS for name in imported(program)}
        modules = {library / name.replace(".", "/") for name in names if not FrozenImporter.find_spec(name)}
        sources = [each.with_suffix(".py") for each in modules if each.with_suffix(".py").exists()]
        assert len(sources) > 10
        assert [each for each in sources if not (each.parent / f"__pycache__/{each.stem}.{tag}.pyc").exists()] == []

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


HOST = {"ID": "debian", "VERSION_CODENAME": "bookworm"}


class TestTheHostsOwn:
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
        assert debian.sources_for("debian", "trixie", "main", HOST, self.TARGETS) == [
            "deb http://mirror.example/debian trixie main",
            "deb http://mirror.example/debian trixie-updates main",
            "deb http://mirror.example/debian-security/ trixie-security main",
        ]

    def test_of_another_vendor_the_host_knows_nothing(self):
        assert debian.sources_for("ubuntu", "noble", "main universe", HOST, self.TARGETS) == []
        assert debian.sources_for("debian", "trixie", "main", {}, self.TARGETS) == []
        assert debian.sources_for("debian", "trixie", "main", HOST, "https://other.example/apt bookworm main\n") == []

    def test_only_its_own_settings_about_fetching_are_taken(self):
        defaults = 'Acquire "";\nAcquire::Retries "3";\nDPkg::Path "/bin";\n'
        own = (
            'Acquire::http::Proxy "http://proxy.example:3128";\nAcquire::https "";\nDPkg::Post-Invoke:: "evil";\n'
            'Acquire::http::Proxy-Auto-Detect "/usr/bin/detect";\nAcquire::IndexTargets::deb::Icons::Enabled "0";\n'
        )
        assert debian.own_options(defaults + own, defaults) == ['Acquire::http::Proxy "http://proxy.example:3128";']

    def test_this_hosts_settings_can_be_read(self):
        assert all(line.startswith("Acquire::") and line.endswith(";") for line in debian.apt_options())
        assert all(text.startswith("-----BEGIN CERTIFICATE") for text in debian.local_certificates())
