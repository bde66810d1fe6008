# Functions that walk the folders of a workspace, never through a link, and remove names on the way. Each name begins
# with ./ and has no other slash. Below a folder that is missing or no longer a folder they do nothing.

set -f
skipped=0

# kept: the folder must exist, else this exits with 69. new: anything else in its place is removed. gone: prune removes
# it later.
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

# Removes a folder unless steps have left something in it.
prune() {
    [ "$skipped" -gt 0 ] || rmdir "$1" 2>/dev/null || :
}

