package roman

import "testing"

func TestNumbersHaveNumerals(t *testing.T) {
	for number, want := range map[int]string{1: "I", 4: "IV", 1994: "MCMXCIV", 2026: "MMXXVI"} {
		if got, err := Numeral(number); got != want || err != nil {
			t.Errorf("Numeral(%d) = %q, %v, not %q", number, got, err, want)
		}
	}
}

func TestZeroHasNoNumeral(t *testing.T) {
	if got, err := Numeral(0); err == nil {
		t.Errorf("Numeral(0) = %q", got)
	}
}
