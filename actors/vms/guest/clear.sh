# Functions for a walk down the folders of a workspace, never through a link, that removes names on its way. Each name
# begins with ./ and has no other slash. Below a folder that is none any more nothing is done.

set -f
skipped=0

# kept: it has to be there, else this ends with 69. new: whatever is in its place goes. gone: it is removed by prune.
down() {
    if [ "$skipped" -gt 0 ]; then
        skipped=$((skipped + 1))
    elif [ -d "$2" ] && [ ! -L "$2" ]; then
        cd -P "$2" || exit
    else
        case $1 in
        kept) exit 69 ;;
        new) rm -f "$2" || exit ;;
        esac
        skipped=1
    fi
}

up() {
    if [ "$skipped" -gt 0 ]; then
        skipped=$((skipped - 1))
    else
        cd -P .. || exit
    fi
}

drop() {
    [ "$skipped" -gt 0 ] || rm -rf "$@" || exit
}

# A folder in which steps have left something stays.
prune() {
    [ "$skipped" -gt 0 ] || rmdir "$1" 2>/dev/null || :
}

