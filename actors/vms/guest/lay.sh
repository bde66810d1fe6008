# Set before: workspace. Unpacks the gzipped tar from stdin over that folder. All else is read-only to it, so that a link in
# the folder, left there by an earlier command, leads no file astray.

PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL workspace
mkdir -p "$workspace" || exit
exec unshare -m sh -c '
    while read -r _ target type _; do
        case $type in
        proc | sysfs | dev* | cgroup* | mqueue) ;;
        *) mount -o remount,bind,ro "$target" ;;
        esac
    done </proc/self/mounts 2>/dev/null
    mount --bind "$workspace" "$workspace" && mount -o remount,bind,rw "$workspace" && cd "$workspace" && exec tar -xzof -
'
