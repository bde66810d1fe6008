"""The one dependency of this project, kept in the tree so that installing it needs no network."""

__all__ = ["ordinal"]


def ordinal(number: int) -> str:
    """Return the English ordinal: 1st, 2nd, 3rd, 4th, 11th, 21st."""
    if number % 100 in {11, 12, 13}:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
