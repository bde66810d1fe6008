# Set before: patience, empty or `timeout SECONDS`. Says the result when the command has ended.

$patience flock -s 4 || exit
tell
