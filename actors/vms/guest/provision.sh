# Set before: packages, options (apt's, may be empty). Installs the packages that a VM needs with the image's own package
# manager. Stdout has lines of progress, then `installed` and the whole tree as a tar, or `failed`.

{
PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive APT_CONFIG=/run/apt.conf
export PATH LC_ALL DEBIAN_FRONTEND APT_CONFIG

install() {
    if command -v apt-get; then
        echo "$options" >"$APT_CONFIG"
        apt-get update && apt-get install -y --no-install-recommends $packages && apt-get clean &&
            rm -rf /var/lib/apt/lists/*
    elif command -v apk; then
        apk add --no-cache $packages
    else
        echo 'it has neither apt-get nor apk'
        return 1
    fi
}

rm -f /usr/sbin/sshd
if install </dev/null 2>&1 && /usr/sbin/sshd -t -f /run/ci-daemon/ssh/sshd_config </dev/null 2>&1; then
    rm -f /etc/ssh/ssh_host_*
    # The bind mount leaves out what is mounted over the tree, such as /dev and this VM's files in /run.
    mkdir /run/tree && mount --bind / /run/tree && echo installed && exec tar -C /run/tree -cf - . 2>/dev/null </dev/null
fi
echo failed
exit
}
