# Prints `ended` if the command has ended.

flock -s -n 4 && echo ended
