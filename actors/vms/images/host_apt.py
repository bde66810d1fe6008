"""The host's settings of apt and its certificate authorities, for its images to use too."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
