#include "roman.h"

#include <string.h>

static const struct {
    unsigned value;
    const char *text;
} digits[] = {
    {1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"},
    {40, "XL"},  {10, "X"},   {9, "IX"},  {5, "V"},    {4, "IV"},  {1, "I"},
};

int roman(unsigned number, char *text, size_t size) {
    size_t length = 0;
    if (number == 0)
        return -1;
    for (size_t i = 0; i < sizeof digits / sizeof *digits; i++)
        for (; number >= digits[i].value; number -= digits[i].value) {
            size_t added = strlen(digits[i].text);
            if (length + added >= size)
                return -1;
            memcpy(text + length, digits[i].text, added + 1);
            length += added;
        }
    return (int)length;
}
