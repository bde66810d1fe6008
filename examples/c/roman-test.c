#include "roman.h"

#include <stdio.h>
#include <string.h>

static const struct {
    unsigned number;
    const char *text;
} numerals[] = {{1, "I"}, {4, "IV"}, {1994, "MCMXCIV"}, {2026, "MMXXVI"}};

int main(void) {
    char text[32];
    int failures = roman(0, text, sizeof text) != -1 || roman(8, text, 4) != -1;
    for (size_t i = 0; i < sizeof numerals / sizeof *numerals; i++)
        if (roman(numerals[i].number, text, sizeof text) < 0 || strcmp(text, numerals[i].text) != 0) {
            fprintf(stderr, "%u is not %s\n", numerals[i].number, text);
            failures++;
        }
    return failures;
}
