"""The summary of a job: what its command writes to ``$CI_SUMMARY``, in Markdown. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import pattern

if TYPE_CHECKING:
    from storage import Masker

FILE = "summary"
MAX_BYTES = 1 << 16
_CONTROLS = pattern(r"[\x00-\x08\x0b-\x1f\x7f]")


def written_summary(content: bytes, size: int, masker: Masker) -> tuple[str, bool]:
    """Return the summary in the first bytes of a file of this size, and whether it was longer.

    A longer one ends with a whole line, and before what may be the beginning of a secret.
    """
    is_cut = size > len(content)
    masked = bytes(masker.mask(content, more=is_cut)[0])
    if is_cut:
        masked = masked[: masked.rfind(b"\n") + 1]
    return _CONTROLS.sub("", masked.decode("utf-8", "replace")), is_cut
