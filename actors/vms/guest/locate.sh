# Opens the files of the command's shim: the output as 3, the result as 4. Sets pid and dir, and namespace if there is
# one. Exits with 66 if no command was started, with 65 if its shim is gone.

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

# Prints the result on stderr, and the uptime as the last line. To be called once the lock on the result is free.
tell() {
    while read -r line; do
        echo "$line"
    done <&4 >&2
    read -r uptime _ </proc/uptime
    echo "now $uptime" >&2
}
