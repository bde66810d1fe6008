# Set before: offset. Copies the output from there to stdout as it arrives, and ends soon after the command, perhaps
# without the last of the output. Then prints the result. A command that ends within 30 ms is awaited, so that its whole
# output comes at once.

if flock -s -w 0.03 4 2>/dev/null; then
    tail -c "+$((offset + 1))" <&3
elif tail --version >/dev/null 2>&1; then
    tail -c "+$((offset + 1))" -s 0.05 -f "/proc/$pid/fd/3" 2>/dev/null 4<&- &
    flock -s 4
    kill "$!"
else
    (
        tail -c "+$((offset + 1))" <&3
        while sleep 0.1; do cat <&3; done
    ) 4<&- &
    flock -s 4
    kill "$!"
fi
tell
