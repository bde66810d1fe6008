"""Values as printable text on one line."""

from __future__ import annotations


def printable(value: object) -> str:
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
