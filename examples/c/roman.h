#ifndef ROMAN_H
#define ROMAN_H

#include <stddef.h>

/* Write a number in Roman numerals, and return its length. Zero has none: -1, as for a text that is too long. */
int roman(unsigned number, char *text, size_t size);

#endif
