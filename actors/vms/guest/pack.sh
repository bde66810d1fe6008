# Set before: workspace. Packs the files below it that stdin names, a NUL after each: into one tar, or where there are too
# many for one command into several, one after the other.

PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL
cd "$workspace" && exec xargs -0 tar -cf -
