"""Values as a terminal shows them."""

from __future__ import annotations

__all__ = ["on_one_line"]


def on_one_line(value: object) -> str:
    """Return a value as one line of text.

    Unprintable characters become blanks, so that no user's text can control the terminal.
    """
    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case _:
            text = str(value)
    return "".join(character if character.isprintable() else " " for character in text)
