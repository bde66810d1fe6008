# Set before: most; after kept_folder.sh. Prints a tar of a folder; exits with 68 if it has more than so many entries.

enter_folder
[ "$(find . -printf . | head -c "$((most + 1))" | wc -c)" -le "$most" ] || exit 68
exec tar --format=posix -cf - .
