"""Greets people, and counts them properly."""

from ordinal import ordinal

__all__ = ["greet", "welcome"]


def greet(name: str) -> str:
    """Return a greeting for one person; a blank name greets the world."""
    return f"Hello, {name.strip() or 'world'}!"


def welcome(names: list[str]) -> list[str]:
    """Return one line for each guest, in the order they came."""
    return [f"{greet(name)} You are our {ordinal(place)} guest." for place, name in enumerate(names, start=1)]
