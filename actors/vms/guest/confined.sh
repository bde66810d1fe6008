# Set before: workspace, program. Runs that shell program in that folder, with all else read-only to it, so that a link in
# the folder, left there by an earlier command, leads no file astray. One at a time: an earlier one may still be at work.

PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL workspace program
mkdir -p "$workspace" /run/ci-daemon && exec 9>/run/ci-daemon/workspace.lock && flock 9 || exit
exec unshare -m sh -c '
    while read -r _ target type _; do
        case $type in
        proc | sysfs | dev* | cgroup* | mqueue) ;;
        *) mount -o remount,bind,ro "$target" ;;
        esac
    done </proc/self/mounts 2>/dev/null
    mount --bind "$workspace" "$workspace" && mount -o remount,bind,rw "$workspace" && cd "$workspace" && eval "$program"
'
