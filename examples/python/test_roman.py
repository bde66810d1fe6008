import pytest

from roman import roman


@pytest.mark.parametrize(("number", "text"), [(1, "I"), (4, "IV"), (1994, "MCMXCIV"), (2026, "MMXXVI")])
def test_numbers_have_numerals(number, text):
    assert roman(number) == text


def test_zero_has_no_numeral():
    with pytest.raises(ValueError, match="0 has no"):
        roman(0)
