# Prints a hash of the names, modes and contents in the working directory, without times, and without what git keeps of
# commits.

{
    find . -path ./.git -prune -o -type d -printf 'd %m %p\0' -o -type f -printf 'f %m %p\0' \
        -o -printf '%y %p %l\0' | LC_ALL=C sort -z | sha256sum
    find . -path ./.git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum | sha256sum
} | sha256sum
