# Set before: workspace. Prints the path of every regular file below it, a NUL after each. Follows no link.

PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL
cd "$workspace" && exec find . -type f -print0
