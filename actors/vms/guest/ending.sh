# Set before: grace, in hundredths of a second; namespace; dir. Defines how a command is ended, for its own supervisor and
# for whoever asks over SSH. Descriptor 4 is the result, see supervise.sh.

# Prints the hundredths of a second since boot. Unlike the wall clock's, they cannot be set.
now() {
    read -r uptime _ </proc/uptime
    hundredths "$uptime"
}

hundredths() {
    echo "$((${1%.*} * 100 + 1${1#*.} - 100))"
}

# Waits up to so many hundredths of a second, at least one, for the command's end; fails where it has not come.
ended_within() {
    timeout "$(($1 / 100)).$(($1 / 10 % 10))$(($1 % 10))" flock -s 4
}

signal() {
    nsenter --pid="/proc/$namespace/ns/pid_for_children" sh -c "kill -$1 -1" 2>/dev/null
}

# Tells whether nobody else has begun to end the command.
is_first() {
    (set -C && : >"$dir/ending") 2>/dev/null
}

# Kills the command after its grace, with all that came from it. Fails where it would not die.
kill_after_grace() {
    [ "$grace" -gt 0 ] && ended_within "$grace" && return
    for _ in 1 2 3 4 5; do
        # Nothing can fork out of this: the kernel signals all at once and a fork under way is given up.
        signal KILL
        ended_within 200 && return
    done
    return 1
}
