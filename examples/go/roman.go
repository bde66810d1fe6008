// Package roman writes Roman numerals.
package roman

import (
	"fmt"
	"strings"
)

var digits = []struct {
	value int
	text  string
}{
	{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"}, {40, "XL"}, {10, "X"},
	{9, "IX"}, {5, "V"}, {4, "IV"}, {1, "I"},
}

// Numeral returns a positive number in Roman numerals.
func Numeral(number int) (string, error) {
	if number < 1 {
		return "", fmt.Errorf("%d has no Roman numeral", number)
	}
	var text strings.Builder
	for _, digit := range digits {
		text.WriteString(strings.Repeat(digit.text, number/digit.value))
		number %= digit.value
	}
	return text.String(), nil
}
