"""Errors in words."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"\[(Errno -?\d+|SSL(: \w+)?)\] | \(_ssl\.c:\d+\)")


def error_reason(error: Exception) -> str:
    """Return why something failed, for people: "Connection refused", without "[Errno 111]" before it.

    An error without a text gives the name of its type. The text is used, and not ``strerror``, because libraries copy
    the text of an OSError into errors of their own.
    """
    nothing = "timed out" if isinstance(error, TimeoutError) else type(error).__name__
    return _NUMBERS.sub("", str(error)) or nothing
