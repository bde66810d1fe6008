"""Debian and Ubuntu images, by mmdebstrap and without root.

They use the host's settings of apt and its certificate authorities, too.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


@immutable
class _Release:
    vendor: str
    suite: str
    keyring: str
    components: str
    merges: bool = False
    """If set, a package would merge `/usr`, by perl, unless mmdebstrap does."""


def _debian(suite: str, *, merges: bool = False) -> _Release:
    return _Release("debian", suite, "debian-archive-keyring", "main", merges)


def _ubuntu(suite: str) -> _Release:
    return _Release("ubuntu", suite, "ubuntu-keyring", "main,universe")


RELEASES = MappingProxyType({
    "debian:11": _debian("bullseye"),
    "debian:12": _debian("bookworm", merges=True),
    "debian:13": _debian("trixie"),
    "ubuntu:22.04": _ubuntu("jammy"),
    "ubuntu:24.04": _ubuntu("noble"),
})  # fmt: skip
"""Releases that images can be built of, by image name."""

_PACKAGES = (
    "ca-certificates", "curl", "gettext-base", "iproute2", "make", "mount", "openssh-server", "passwd", "procps",
    "python3", "python3-venv", "tzdata", "unzip", "xz-utils",
)  # fmt: skip
_NEVER_UNPACKED = """\
path-exclude=/usr/share/man/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
"""
_REMOVE_UNPACKED = """
cd "$1/usr/share"
rm -rf man/* info/* locale/*
find doc ! -type d ! -name copyright -delete
"""
"""Remove the same from what mmdebstrap unpacks.

As options of mmdebstrap, the paths would take as long as all of the unpacking.
"""

_KEEP_FROM_MAKING_KEYS = """
mkdir -p "$1/etc/ssh"
touch "$1/etc/ssh/ssh_host_rsa_key" "$1/etc/ssh/ssh_host_ecdsa_key" "$1/etc/ssh/ssh_host_ed25519_key"
"""
_MERGING = Path("/usr/share/mmdebstrap/hooks/merged-usr")
_INSTALL_GIT = """
set -e
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
cd "$1/tmp"
echo "I: installing git" >&2
apt-get -qq download git
dpkg-deb --raw-extract git_*.deb git
unneeded="git-(daemon|http-backend|http-fetch|http-push|imap-send|sh-i18n--envsubst|shell)|scalar"
find git ! -type d -regextype posix-extended -regex ".*/($unneeded)" -delete
sed -E -i "/($unneeded)$/d" git/DEBIAN/md5sums
ln -f git/usr/bin/git git/usr/lib/git-core/git
sed -E -i '/^Depends:/s/, (perl|liberror-perl|git-man)(:any)?( \\([^)]*\\))?//g' git/DEBIAN/control
dpkg-deb -Znone --build git git.deb >/dev/null
apt-get -qq --yes -oDPkg::Chroot-Directory="$1" install "$1/tmp/git.deb" >/dev/null
rm -r git git.deb git_*.deb
"""
"""Install git without perl and its manual, and without what only servers and senders of mail need.

That halves the image. Each step that installs git by apt gets all of it. Git's scripts take `envsubst` of gettext-base,
where that is, for their own, which has all of git's library in it.
"""

_REMOVE_INSTALLED = """
set -e
cd "$1"
rm -f etc/ssh/ssh_host_* etc/ssh/moduli var/cache/debconf/*-old var/lib/dpkg/*-old
rm -rf usr/share/bash-completion usr/share/gitweb usr/share/lintian usr/share/zoneinfo/right
rm -f usr/lib/openssh/ssh-keysign usr/lib/openssh/ssh-pkcs11-helper usr/lib/openssh/ssh-sk-helper
rm -f usr/*bin/arpd usr/*bin/dcb usr/*bin/devlink usr/*bin/rdma usr/*bin/rtmon usr/*bin/tipc usr/*bin/vdpa
rm -f usr/*bin/*.bfs usr/*bin/*.cramfs usr/*bin/*.minix
rm -rf usr/lib/python3.*/pydoc_data usr/lib/python3.*/test usr/lib/python3.*/turtle.py
rm -f usr/lib/python3.*/lib-dynload/_*test*.so usr/lib/python3.*/lib-dynload/xx*.so
"""
"""Remove the keys of the image's own host, and what no command reads.

That is tests, and tools for hardware and for old file systems. Of it, a package that a step installs brings its own.
"""

_CHARACTER_SETS = (
    "BIG5", "CP125*", "CP932", "EUC-[CJK]*", "GB18030", "GBK", "IBM437", "IBM8[56]?", "ISO-2022-[JK]*", "ISO8859-*",
    "KOI8-*", "SJIS", "UHC", "UNICODE", "UTF-*", "lib[GJK]*",
)  # fmt: skip
_REMOVE_CHARACTER_SETS = f"""
find "$1"/usr/lib/*/gconv -name '*.so' {" ".join(f"! -name '{each}.so'" for each in _CHARACTER_SETS)} -delete
"""
"""Keep of what `iconv` converts the character sets in which files are still written.

Most of the others are those of mainframes.
"""

_REMOVE_TRANSLATIONS = """
set -e
cd "$1"
for each in var/cache/debconf/templates.dat var/lib/dpkg/info/*.templates; do
    awk '!/^ / { foreign = /^[A-Za-z_]+-[A-Za-z_@]+\\.[Uu][Tt][Ff]-?8:/ } !foreign' "$each" >tmp/templates
    cat tmp/templates >"$each"
done
rm -f tmp/templates
"""
_LINK_LICENCES = """
cd "$1"
find usr/share/doc -name copyright -type f -exec md5sum {} + | sort | while read -r sum file; do
    if [ "$sum" = "$last" ]; then ln -f "$first" "$file"; else last=$sum first=$file; fi
done
"""
"""Make one file of the licences that several packages of a source have alike."""

_COMPILED = (
    "__future__", "argparse", "concurrent.futures", "configparser", "csv", "ctypes", "dataclasses",
    "decimal", "email.message", "encodings.idna", "fractions", "glob", "gzip", "hashlib", "http.client",
    "importlib.metadata", "importlib.resources", "inspect", "json", "logging", "pathlib", "pkgutil", "runpy", "shlex",
    "sqlite3", "ssl", "subprocess", "tarfile", "tempfile", "typing", "unittest", "urllib.request", "uuid", "venv",
    "xml.etree.ElementTree", "zipfile",
)  # fmt: skip
_COMPILE = f"""
set -e
find "$1/usr" -depth -name __pycache__ -type d -exec rm -rf {{}} +
chroot "$1" python3 -c 'import {", ".join(_COMPILED)}'
"""
"""Keep of Python's compiled modules those that programs usually import.

Its packages compile all. A job that imports others compiles them, each in milliseconds.
"""

_KEYRINGS = Path("/usr/share/keyrings")
_CERTIFICATES = "/usr/local/share/ca-certificates"
_LAST_LINES = 15
_JOIN_SECONDS = 10.0
_FETCH_FAILED = "Failed to fetch"
_PROXIES = {"http_proxy", "https_proxy", "ftp_proxy", "no_proxy"}


@immutable
class Recipe:
    """The recipe for an image of one release."""

    name: str
    release: _Release
    mirror: str | None

    @classmethod
    def of(cls, name: str, mirror: str | None = None) -> Recipe:
        """Find the recipe of a name. Raises VmError if there is none, or the host lacks programs or keys."""
        release = RELEASES.get(name)
        if release is None:
            message = (
                f'an image "{name}" cannot be built (these can: {", ".join(RELEASES)}): see `ci-daemon image import`'
            )
            raise VmError(message)
        if shutil.which("mmdebstrap") is None:
            message = "mmdebstrap is not installed: run `sudo apt-get install -y mmdebstrap`"
            raise VmError(message)
        if not (_KEYRINGS / f"{release.vendor}-archive-keyring.gpg").exists():
            message = (
                f"the keys of {release.vendor}'s archive are missing: run `sudo apt-get install -y {release.keyring}`"
            )
            raise VmError(message)
        return cls(name, release, mirror)

    def describe(self) -> str:
        """Say where the image comes from."""
        return f"mmdebstrap {self.release.suite}"

    @contextmanager
    def tar(self, folder: Path, progress: Callable[[str], None]) -> Iterator[IO[bytes]]:
        """Yield the tar of the root file system while mmdebstrap makes it in ``folder``.

        The VMs' ids must be able to enter ``folder``. Raises VmError at the end if mmdebstrap failed.
        """
        argv = [*self._argv(folder), *self._sources()]
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "TMPDIR": str(folder),
            **_proxies(),
        }
        with subprocess.Popen(
            argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - pipes
            last: deque[str] = deque(maxlen=_LAST_LINES)
            listener = threading.Thread(target=_read_stderr, args=(process.stderr, progress, last), daemon=True)
            listener.start()
            failure: VmError | None = None
            try:
                yield process.stdout
            except VmError as error:  # a consequence of mmdebstrap's failure, or its cause
                failure = error
            except BaseException:
                process.terminate()
                listener.join(_JOIN_SECONDS)
                raise
            process.stdout.close()
            listener.join()
        if process.returncode != 0:
            message = f"mmdebstrap could not build {self.name}: {_reason(last, failure)}"
            raise VmError(message) from failure
        if failure is not None:
            raise failure

    def _argv(self, folder: Path) -> list[str]:
        argv = ["mmdebstrap", "--mode=unshare", "--variant=apt", "--format=tar"]
        argv += [f"--include={','.join(_PACKAGES)}", f"--components={self.release.components}"]
        argv += [f"--aptopt={line}" for line in ['Acquire::Languages "none";', *apt_options()]]
        argv += ["--dpkgopt=force-unsafe-io"]
        if self.release.merges and _MERGING.is_dir():
            argv += [f"--hook-dir={_MERGING}"]
        argv += [f"--extract-hook={hook}" for hook in self._extract_hooks(folder)]
        argv += [f"--customize-hook={hook}" for hook in self._customize_hooks()]
        return [*argv, self.release.suite, "-"]

    def _extract_hooks(self, folder: Path) -> Iterable[str]:
        """Yield what is done when the essential packages are unpacked, but nothing is configured yet."""
        never_unpacked = folder / "never-unpacked"
        never_unpacked.write_text(_NEVER_UNPACKED, encoding="ascii")
        yield f"upload {never_unpacked} /etc/dpkg/dpkg.cfg.d/ci-daemon"
        yield _REMOVE_UNPACKED
        yield _KEEP_FROM_MAKING_KEYS
        certificates = folder / "certificates"
        certificates.mkdir()
        for number, text in enumerate(local_certificates(), start=1):
            (certificates / f"host-{number}.crt").write_text(text + "\n", encoding="ascii")
        if any(certificates.iterdir()):
            yield f'mkdir -p "$1{_CERTIFICATES}"'
            yield f"sync-in {certificates} {_CERTIFICATES}"
            yield f'chown -R 0:0 "$1{_CERTIFICATES}"'

    def _customize_hooks(self) -> Iterable[str]:
        """Yield what is done when all packages are installed."""
        yield _INSTALL_GIT
        yield _REMOVE_INSTALLED
        yield _REMOVE_CHARACTER_SETS
        yield _REMOVE_TRANSLATIONS
        yield _LINK_LICENCES
        yield _COMPILE
        yield 'mkdir -p "$1/workspace"'
        yield ': >"$1/etc/resolv.conf"; echo localhost >"$1/etc/hostname"'

    def _sources(self) -> Sequence[str]:
        if self.mirror is not None:
            return [self.mirror]
        return apt_sources(self.release.vendor, self.release.suite, self.release.components.replace(",", " "))


def _proxies() -> dict[str, str]:
    """Return the proxy variables of this process, for apt to use."""
    return {name: value for name, value in os.environ.items() if name.lower() in _PROXIES}


def _reason(output: Iterable[str], failure: VmError | None) -> str:
    """Return why mmdebstrap failed, by its last lines.

    If it could not reach the archive, the broken tar that follows is not worth a word.
    """
    unreached = next((line for line in output if _FETCH_FAILED in line), None)
    if unreached is None:
        return "; ".join([*output, *([str(failure)] if failure else [])])
    cause = unreached.removeprefix("E: ")
    return f"{cause}: check that this host can reach its package archive, or choose another one with --mirror"


def _read_stderr(lines: IO[bytes], progress: Callable[[str], None], last: deque[str]) -> None:
    for line in lines:
        text = line.decode(errors="replace").strip()
        if re.match(r"[IWE]: (?!running .*hook)", text):
            progress(text[3:])
        if text:
            last.append(text)


_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
_VENDOR_CERTIFICATES = Path("/usr/share/ca-certificates")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")
_POCKETS = ("", "-updates", "-security")
_ARCHIVES = {"debian": {"debian", "debian-security"}, "ubuntu": {"ubuntu", "ubuntu-ports"}}


def apt_options() -> list[str]:
    """Return this host's own settings of apt for downloads: proxies, time-outs, authorities."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as nothing:
        nothing.write('Dir::Etc::Main "/dev/null"; Dir::Etc::Parts "/dev/null";\n')
        nothing.flush()
        return own_options(_apt("apt-config", "dump"), _apt("apt-config", "dump", APT_CONFIG=nothing.name))


def own_options(dump: str, defaults: str) -> list[str]:
    """Return the lines of ``apt-config dump`` about downloads that are not apt's defaults.

    Leaves out the settings that need other programs of this host: further indexes that those want, and programs that
    detect a proxy.
    """
    known = set(defaults.splitlines())
    lines = (line for line in dump.splitlines() if line.startswith("Acquire::") and line not in known)
    unwanted = ("::indextargets::", "::proxy-auto-detect", "::proxyautodetect")
    return [line for line in lines if not line.endswith('"";') and not any(part in line.lower() for part in unwanted)]


def apt_sources(vendor: str, suite: str, components: str) -> list[str]:
    """Return apt's one-line sources of a release, made from this host's; none if the vendor differs."""
    try:
        host = platform.freedesktop_os_release()
    except OSError:
        return []
    targets = _apt("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
    return sources_for(vendor, suite, components, host, targets)


def sources_for(vendor: str, suite: str, components: str, host: Mapping[str, str], targets: str) -> list[str]:
    """Turn the host's sources into those of another release of its vendor.

    ``targets`` has a line ``ADDRESS RELEASE COMPONENT`` for each source. Only the vendor's own archives count: they
    have a component ``main`` and one of the vendor's folders.
    """
    codename = host.get("VERSION_CODENAME", "")
    if host.get("ID") != vendor or not codename:
        return []
    lines: dict[str, None] = {}
    for address, release, component in (line.split() for line in targets.splitlines() if line.count(" ") == 2):  # noqa: PLR2004 - three fields
        pocket = release.removeprefix(codename)
        archive = urlsplit(address).path.rstrip("/").rsplit("/", 1)[-1]
        if release.startswith(codename) and pocket in _POCKETS and component == "main" and archive in _ARCHIVES[vendor]:
            lines[f"deb {address} {suite}{pocket} {components}"] = None
    return list(lines) if any(f" {suite} " in line for line in lines) else []


def local_certificates() -> list[str]:
    """Return the authorities, as PEM, that this host trusts beyond those of its distribution."""
    if not _VENDOR_CERTIFICATES.is_dir() or not _BUNDLE.exists():
        return []
    shipped = certificates_in(_VENDOR_CERTIFICATES.rglob("*.crt"))
    return [text for text in certificates_in([_BUNDLE]) if text not in shipped]


def certificates_in(files: Iterable[Path]) -> dict[str, None]:
    """Return every PEM certificate in the files, once and in order."""
    texts = (file.read_text(encoding="ascii", errors="replace") for file in files)
    return dict.fromkeys(found for text in texts for found in _CERTIFICATE.findall(text))


def _apt(*argv: str, **environment: str) -> str:
    """Return the output of one of apt's programs; empty if there is no apt, or it fails."""
    try:
        done = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout
