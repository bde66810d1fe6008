# Set before: path, temporary; after kept_folder.sh. Unpacks the tar from stdin as a folder, at once: nobody finds a part
# of it. Exits with 69 and does nothing if something is there but an empty folder.

if [ -L "$path" ] || { [ -e "$path" ] && ! rmdir "$path" 2>/dev/null; }; then exit 69; fi
rm -rf "$temporary" && mkdir "$temporary" || exit 1
if tar -b 512 -xof - -C "$temporary" && mkdir -p "$(dirname "$path")" && mv -T "$temporary" "$path"; then exit 0; fi
rm -rf "$temporary"
exit 1
