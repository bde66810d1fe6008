import assert from "node:assert/strict";
import test from "node:test";

import { roman } from "./roman.js";

test("numbers have numerals", () => {
  assert.deepEqual([1, 4, 1994, 2026].map(roman), ["I", "IV", "MCMXCIV", "MMXXVI"]);
});

test("zero has no numeral", () => {
  assert.throws(() => roman(0), /0 has no/);
});
