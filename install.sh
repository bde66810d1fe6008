#!/bin/sh
# Install this checkout's ci-daemon on this host, or upgrade the installed one: `sudo ./install.sh`.
# It takes the options of `ci-daemon install`, see `./install.sh --help`.
set -eu
umask 022
unset PYTHONHOME PYTHONPATH PIP_PREFIX PIP_ROOT PIP_TARGET PIP_USER
here=$(cd "$(dirname "$0")" && pwd)

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail "this needs root: run \`sudo $0\`"

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
for python in /usr/bin/python3 /usr/bin/python3.14 /usr/bin/python3.13 /usr/bin/python3.12 /usr/bin/python3.11 ''; do
    [ -n "$python" ] || fail "Python 3.11 or newer is needed: run \`apt-get install python3\`, or upgrade the system"
    new_enough "$python" && break
done

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    command -v apt-get >/dev/null || fail "$python has no venv module: install the package that brings it ($package)"
    echo "installing $package" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq "$package" </dev/null >/dev/null 2>&1 ||
        { apt-get update -qq </dev/null && apt-get install -y -qq "$package" </dev/null >/dev/null; }
fi

# The installer is part of this checkout, so it runs from a temporary virtual environment.
first=$(mktemp -d)
trap 'rm -rf "$first"' EXIT
trap 'exit 130' INT TERM HUP
mkdir "$first/source"
(cd "$here" && tar -cf - --exclude='./.*' --exclude=./build --exclude='*.egg-info' .) | tar -xf - -C "$first/source"
echo "preparing the installation" >&2
"$python" -Im venv "$first/venv"
pip() { "$first/venv/bin/python" -Im pip install --quiet --disable-pip-version-check --no-deps "$@"; }
pip --require-hashes --requirement "$first/source/requirements/run.txt"
pip "$first/source"
"$first/venv/bin/ci-daemon" install --from "$here" "$@"
