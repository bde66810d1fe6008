# Make a sandbox without the service. Its sshd uses stdin and stdout; the sandbox ends with that connection.
# Arguments: its folder, the layers below its disk in overlayfs syntax, and the program for its network, empty for
# none. The working directory has the keys and sshd_config.

set -e
folder=$1 lower=$2 network=$3

sandbox() {
    exec unshare --user --map-auto --map-root-user --mount --pid --fork --kill-child --uts --ipc --net sh -ec '
        [ -z "$3" ] || echo made >"$1/made"
        mount -t overlay overlay -o "userxattr,volatile,lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
        cd "$1/root"
        mount -t proc proc proc
        mount --rbind /dev dev
        mount -t tmpfs tmpfs run
        mkdir run/sshd
        cp ../../host_key ../../authorized_keys ../../sshd_config run
        [ -z "$3" ] || head -c 1 <../up >/dev/null
        exec chroot . /usr/sbin/sshd -i -f /run/sshd_config
    ' sh "$folder" "$lower" "$network"
}

mkdir "$folder" "$folder/upper" "$folder/work" "$folder/root"
[ -n "$network" ] || sandbox

mkfifo "$folder/made" "$folder/up"
exec 3<&0 4<>"$folder/up"
sandbox <&3 3<&- 4<&- &
vm=$!
exec 3<&- >/dev/null 2>&1
read -r _ <"$folder/made"
case $network in
*slirp4netns)
    "$network" --configure --mtu=65520 --disable-host-loopback --ready-fd=4 "$vm" eth0 &
    running=$!
    ;;
*)
    "$network" --quiet --config-net -t none -u none -T none -U none --pid "$folder/pasta" "$vm"
    echo up >&4
    read -r running <"$folder/pasta"
    ;;
esac
trap : HUP # ssh ends its ProxyCommand with SIGHUP; the lines below still have to kill the network's program
wait "$vm" || true
kill -KILL "$running"
