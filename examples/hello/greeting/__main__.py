"""`python3 -m greeting Ada Grace` prints a line for each name."""

import sys

from greeting import welcome

for line in welcome(sys.argv[1:] or [""]):
    print(line)
