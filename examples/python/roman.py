"""Roman numerals."""

_DIGITS = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
    (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip


def roman(number: int) -> str:
    """Return a positive number in Roman numerals."""
    if number < 1:
        raise ValueError(f"{number} has no Roman numeral")
    text = ""
    for value, digits in _DIGITS:
        count, number = divmod(number, value)
        text += digits * count
    return text
