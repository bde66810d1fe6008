"""The texts of e-mail, made from templates: a text, whose first line is the subject, and HTML."""

from __future__ import annotations

import re
import unicodedata
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from storage import Letter

if TYPE_CHECKING:
    from datetime import datetime

    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
_LONGEST_NAME = 60
_LINK = re.compile(r"[/@\\]|\w\.\w|:\S")
"""Characters of which mail programs may make a link, to a target that the writer of a name chose."""


class Letters:
    """Writes the letters of one service. Safe in any thread."""

    def __init__(self, url: str) -> None:
        """Store the address of the service, without a trailing slash."""
        self._url = url

    @cached_property
    def _templates(self) -> Environment:
        from jinja2 import (  # noqa: PLC0415 - 50 ms, which only those who write mails pay
            Environment,
            FileSystemLoader,
            StrictUndefined,
            select_autoescape,
        )

        templates = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=select_autoescape(("html",), default=False),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        templates.filters["until"] = _until
        return templates

    def write(self, kind: str, **values: object) -> Letter:
        """Return the letter of a kind, with values for its templates; texts in them become one line."""
        shown = {name: one_line(value) if isinstance(value, str) else value for name, value in values.items()}
        text = self._templates.get_template(f"{kind}.txt").render(url=self._url, **shown)
        subject, _, body = text.partition("\n")
        html = self._templates.get_template(f"{kind}.html").render(url=self._url, subject=subject, **shown)
        stop_link = shown.get("stop_link")
        return Letter(subject, body.lstrip("\n") + "\n", html, None if stop_link is None else str(stop_link))


def shown_name(name: str) -> str:
    """Return a person's name as a letter shows it; empty if it could pass for an address or a link.

    Anybody may ask for a letter to a stranger, with any name in it.
    """
    line = one_line(name)[:_LONGEST_NAME].strip()
    return "" if _LINK.search(line) else line


def one_line(text: str) -> str:
    """Return a text without line ends, control and formatting characters, such as those that reverse text."""
    return " ".join("".join(" " if unicodedata.category(each)[0] in "CZ" else each for each in text).split())


def _until(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"
