# Set before: workspace, program. Runs the shell program in the workspace with everything else read-only, so that a link
# that an earlier command left in the workspace cannot redirect a write. A lock lets one run at a time, because an earlier
# one may still be running.

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
