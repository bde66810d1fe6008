"""Answers to the service, which may have died meanwhile: its successor finds by itself what was made."""

from __future__ import annotations

import os


def answer(descriptor: int, words: bytes) -> None:
    """Write an answer, unless nobody is left to read it."""
    try:
        os.write(descriptor, words)
    except BrokenPipeError:
        return
