# Runs the VM's one command, ends it at its time-out, and keeps its output and exit code until the VM ends.
#
# Set before: limit, the most bytes of output to keep, rounded up to blocks of 512; allowed, the time-out in hundredths of
# a second; grace, the hundredths between TERM and KILL. stdin: the script of the command's init, see command.py. Prints
# `started` on stdout (descriptor 8) once the command has started, or the reason why it cannot start. sshd makes this the
# leader of a session without a terminal, and does not signal it when its channel or connection ends.
#
# Others read the descriptors of this process, so that nothing is lost if the command, which is root, removes files:
#   3  the combined output
#   4  lines: `namespace PID`, `started UPTIME`, `timed-out`, `exit CODE`, `output SIZE DROPPED`, `ended UPTIME`; the third
#      only after a time-out, the fourth unless its init was killed; locked until all of them are there

PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL
umask 077
dir=/run/ci-daemon
[ -d "$dir" ] || mkdir -m 700 "$dir"
exec 5<&0 8>&1 </dev/null >/dev/null 2>&1
exec 3<>"$dir/output.$$" 4<>"$dir/result.$$" 9<"$dir/result.$$"
flock -x 9

# The first process to make this file runs the command. A later one was sent after a crash of the daemon, which had not
# recorded the first.
set -C
if ! echo "$$" >"$dir/command"; then
    tries=0
    while [ "$tries" -lt 500 ]; do
        read -r pid <"$dir/command" && grep -q '^started' "/proc/$pid/fd/4" && echo started >&8 && exit
        tries=$((tries + 1))
        sleep 0.02
    done
    echo 'another process has been starting the command for 10 s' >&8
    exit 1
fi
set +C
rm -f "$dir/ending"

# The time-out is enforced here, where it outlives every connection and the daemon. It counts from the command's start.
(
    exec 5<&- 8>&- 9<&-
    left=$allowed
    while [ "$left" -gt 0 ]; do
        ended_within "$left" && exit
        sleep 0.1
        uptime=$(sed -n 's/^started //p' "/proc/self/fd/4")
        [ -n "$uptime" ] && left=$(($(hundredths "$uptime") + allowed - $(now)))
    done
    read -r _ namespace <"/proc/self/fd/4"
    is_first && echo timed-out >&4 && signal TERM
    kill_after_grace
) &

# The command has its own PID namespace: when its init ends, the kernel kills all processes that the command left.
(
    read -r self _ </proc/self/stat
    echo "namespace $self" >&4
    exec env -i PATH="$PATH" LC_ALL=C unshare -m -p -f --mount-proc sh <&5 2>&1 3>&- 5<&- 9<&-
) | (
    exec 5<&- 8>&- 9<&-
    dropped=0
    if ! (ulimit -f "$(((limit + 511) / 512))" && exec cat >&3 2>/dev/null); then
        dropped=$(($(wc -c) + 1))
    fi
    size=$(wc -c <"/proc/self/fd/3")
    read -r uptime _ </proc/uptime
    printf 'output %s %s\nended %s\n' "$size" "$dropped" "$uptime" >&4
)

while read -r word _; do
    if [ "$word" = started ]; then
        exec 5<&- 8>&- 9<&-
        wait
        exec sleep 2147483
    fi
done <"/proc/self/fd/4"
rm -f "$dir/command"
cat "/proc/self/fd/3" >&8
