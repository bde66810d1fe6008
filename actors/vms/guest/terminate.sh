# Set before: grace, in seconds. Ends the command and all that came from it. Ends with 67 where it would not die.

signal() {
    nsenter --pid="/proc/$namespace/ns/pid_for_children" sh -c "kill -$1 -1" 2>/dev/null
}

flock -s -n 4 && exit
signal TERM
timeout "$grace" flock -s 4 && exit
for _ in 1 2 3 4 5; do
    # Nothing can fork out of this: the kernel signals all at once and a fork under way is given up.
    signal KILL
    timeout 2 flock -s 4 && exit
done
exit 67
