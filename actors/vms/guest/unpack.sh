# Set before: empty. Unpacks the tar from stdin in the working directory. If `empty` is not an empty string and the folder
# has entries, exits with 69 and does nothing.

if [ -n "$empty" ]; then
    for each in ./* ./.[!.]* ./..?*; do
        if [ -e "$each" ] || [ -L "$each" ]; then exit 69; fi
    done
fi
exec tar -b 512 -xof -
