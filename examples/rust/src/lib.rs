//! Roman numerals.

const DIGITS: [(u32, &str); 13] = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
];

/// Return a number in Roman numerals; zero has none.
pub fn roman(mut number: u32) -> Option<String> {
    if number == 0 {
        return None;
    }
    let mut text = String::new();
    for (value, digit) in DIGITS {
        text += &digit.repeat((number / value) as usize);
        number %= value;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::roman;

    #[test]
    fn numbers_have_numerals() {
        for (number, text) in [(1, "I"), (4, "IV"), (1994, "MCMXCIV"), (2026, "MMXXVI")] {
            assert_eq!(roman(number).as_deref(), Some(text));
        }
    }

    #[test]
    fn zero_has_no_numeral() {
        assert_eq!(roman(0), None);
    }
}
