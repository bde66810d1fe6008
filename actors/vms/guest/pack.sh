# Set before: workspace. Packs the files below it that stdin names, a NUL after each, into one tar, or into several in a
# row if there are too many for one command.

PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL
cd "$workspace" && exec xargs -0 tar -cf -
