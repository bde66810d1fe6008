# Opens what the command's supervisor holds: its output as 3, its result as 4. Sets pid and dir, and namespace where there
# is one. Ends with 66 where no command was started, with 65 where its supervisor is gone.

PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL
dir=/run/ci-daemon
[ -e "$dir/command" ] || exit 66
tries=0
until read -r pid <"$dir/command"; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || exit 65
    sleep 0.01
done
[ -e "/proc/$pid/fd/3" ] && [ -e "/proc/$pid/fd/4" ] || exit 65
exec 3<"/proc/$pid/fd/3" 4<"/proc/$pid/fd/4"
read -r _ namespace <&4

# Says the result on stderr, a line each, once the lock on it is free, and as the last of them what time it is.
tell() {
    while read -r line; do
        echo "$line"
    done <&4 >&2
    read -r uptime _ </proc/uptime
    echo "now $uptime" >&2
}
