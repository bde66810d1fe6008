# Set before: grace, in hundredths of a second; namespace; dir. Functions that end a command, for its shim and for
# terminate.sh. Descriptor 4 is the result, see shim.sh.

# Prints the hundredths of a second since boot, a clock that cannot be set.
now() {
    read -r uptime _ </proc/uptime
    hundredths "$uptime"
}

hundredths() {
    echo "$((${1%.*} * 100 + 1${1#*.} - 100))"
}

# Waits up to $1 hundredths of a second, at least one, for the command's end; fails if it has not ended.
ended_within() {
    seconds="$(($1 / 100)).$(($1 / 10 % 10))$(($1 % 10))"
    flock -s -w "$seconds" -E 75 4 2>/dev/null
    case $? in
    0) return 0 ;;
    75) return 1 ;;
    *) timeout "$seconds" flock -s 4 ;; # busybox has no more than that
    esac
}

signal() {
    nsenter --pid="/proc/$namespace/ns/pid_for_children" sh -c "kill -$1 -1" 2>/dev/null
}

# Succeeds for the first process that ends the command.
is_first() {
    (set -C && : >"$dir/ending") 2>/dev/null
}

# Kills all processes of the command after its grace. Fails if they do not die.
kill_after_grace() {
    [ "$grace" -gt 0 ] && ended_within "$grace" && return
    for _ in 1 2 3 4 5; do
        # A fork cannot escape: the kernel signals all processes at once and aborts a fork in progress.
        signal KILL
        ended_within 200 && return
    done
    return 1
}
