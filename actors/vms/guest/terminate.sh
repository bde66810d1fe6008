# Ends the command and all that came from it: TERM, its grace, KILL. Goes on where the connection ends meanwhile. Whoever
# comes second sends no other TERM. Ends with 67 where the command would not die.

flock -s -n 4 && exit
is_first && signal TERM
kill_after_grace || exit 67
