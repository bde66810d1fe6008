const digits: [number, string][] = [
  [1000, "M"], [900, "CM"], [500, "D"], [400, "CD"], [100, "C"], [90, "XC"], [50, "L"], [40, "XL"], [10, "X"],
  [9, "IX"], [5, "V"], [4, "IV"], [1, "I"],
];

/** Return a positive number in Roman numerals. */
export function roman(number: number): string {
  if (!Number.isInteger(number) || number < 1) {
    throw new RangeError(`${number} has no Roman numeral`);
  }
  let text = "";
  for (const [value, digit] of digits) {
    text += digit.repeat(Math.floor(number / value));
    number %= value;
  }
  return text;
}
