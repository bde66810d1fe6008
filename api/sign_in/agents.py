"""Names of the programs that sign in, from a fixed list: nothing of a request's header is stored."""

from __future__ import annotations

import re

_LONGEST = 1000
"""Characters of the header that are looked at; those of browsers are a quarter of this."""

_BROWSERS = (
    ("Edge", re.compile(r"\bEdg(?:e|A|iOS)?/")),
    ("Opera", re.compile(r"\bOPR/|\bOpera\b")),
    ("Samsung Internet", re.compile(r"\bSamsungBrowser/")),
    ("Firefox", re.compile(r"\b(?:Firefox|FxiOS)/")),
    ("Chrome", re.compile(r"\b(?:Chrome|Chromium|CriOS|HeadlessChrome)/")),
    ("Safari", re.compile(r"\bSafari/")),
)
"""Browsers, those first that also name another one."""

_SYSTEMS = (
    ("iOS", re.compile(r"\b(?:iPhone|iPad|iPod)\b")),
    ("Android", re.compile(r"\bAndroid\b")),
    ("Windows", re.compile(r"\bWindows\b")),
    ("macOS", re.compile(r"\b(?:Macintosh|Mac OS X)\b")),
    ("ChromeOS", re.compile(r"\bCrOS\b")),
    ("Linux", re.compile(r"\b(?:Linux|X11)\b")),
)
"""Operating systems, those first that also name another one."""

_PROGRAMS = (
    ("ci-daemon", "ci-daemon/"),
    ("curl", "curl/"),
    ("Wget", "Wget/"),
    ("Python", "python-httpx/"),
    ("Python", "python-requests/"),
    ("Python", "Python-urllib/"),
    ("Go", "Go-http-client/"),
    ("Node.js", "node"),
)
"""Programs by the beginning of their header."""

_UNKNOWN = "unknown program"


def agent_name(header: str | None) -> str:
    """Return a program's name, such as "Firefox on Linux" or "curl", from its ``User-Agent``."""
    text = (header or "")[:_LONGEST]
    for name, beginning in _PROGRAMS:
        if text.startswith(beginning):
            return name
    browser = next((name for name, found in _BROWSERS if found.search(text)), None)
    if browser is None:
        return _UNKNOWN
    system = next((name for name, found in _SYSTEMS if found.search(text)), None)
    return browser if system is None else f"{browser} on {system}"
