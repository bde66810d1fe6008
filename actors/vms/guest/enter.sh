# Set before: program, and enter, which is enter.pl. Runs the shell program in the job's namespaces, below its limits. The
# answer is the process that is in them; a failure is 1. It has open the files through which this shell joins the job's
# control groups of version 1: a process joins at once, but to move another one takes the kernel 9 ms.

[ "$answer" -gt 1 ] || exit 1
for file in /proc/"$answer"/fd/*; do
    if [ -f "$file" ]; then echo 0 >"$file" || exit 1; fi
done
exec perl -e "$enter" "$answer" "$program"
