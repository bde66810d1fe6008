# After kept_folder.sh: prints a hash of the names, modes, sizes and times of a folder's files.

enter_folder
find . -type d -printf 'd %m %p\0' -o -type l -printf 'l %p %l\0' -o -printf '%y %m %s %T@ %p\0' | LC_ALL=C sort -z | sha256sum
