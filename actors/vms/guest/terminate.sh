# Ends all processes of the command: TERM, its grace, KILL. Continues if the connection ends meanwhile. Only the first
# call sends TERM. Exits with 67 if the command does not die.

flock -s -n 4 && exit
is_first && signal TERM
kill_after_grace || exit 67
