# Set before: path. Enters a folder below the working directory, not through a link that leads out of it. Exits with 67 if
# there is none, with 66 if it is elsewhere.

place=$(pwd -P)

enter_folder() {
    [ -d "$path" ] || exit 67
    cd -P "$path" || exit 1
    case $(pwd -P) in
        "$place"/*) ;;
        *) exit 66 ;;
    esac
}

