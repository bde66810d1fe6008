# Set before: program. Runs the shell program in the job's namespaces, below its limits. The answer is the process that is
# in them; a failure is 1.

[ "$answer" -gt 1 ] || exit 1
namespaces=/proc/$answer/ns
exec nsenter --mount="$namespaces/mnt" --net="$namespaces/net" --pid="$namespaces/pid_for_children" -- /bin/sh -c "$program"
