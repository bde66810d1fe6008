# Set before: program. Runs the shell program in the job's workspace, mounted here with everything else read-only, so that
# a link that an earlier command left in the workspace cannot redirect a write. A lock lets one run at a time, because an
# earlier one may still be running.

export program
exec 9>/run/ci-daemon/workspace.lock && flock 9 || exit
exec unshare -m sh -c "$request"'
    [ "$answer" = 0 ] || exit "$answer"
    cd /run/ci-daemon/workspace && eval "$program"
'
