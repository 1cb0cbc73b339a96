#!/bin/bash
# install.sh DEB: installs the package over a copy of this system in a mount namespace of its own, uses it as its user, installs it again, removes it and purges it. Exit code 77:
# there can be no such copy here. Run by: unshare --mount --pid --fork --kill-child
set -euo pipefail
deb=$(realpath "$1")
mount -t tmpfs tmpfs /mnt || exit 77
mkdir /mnt/{upper,work,root}
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root || exit 77
mount --rbind /dev /mnt/root/dev
mount -t proc proc /mnt/root/proc || exit 77
cp "$deb" /mnt/root/edgesteer.deb
rm -f /mnt/root/var/lib/man-db/auto-update # the index of all manual pages takes long

enter=(chroot /mnt/root /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive)
user=(setpriv --reuid edgesteer --regid edgesteer --init-groups)
inside() { "${enter[@]}" "$@"; }
fail() { echo "$*"; exit 1; }

inside dpkg --purge edgesteer # one that this machine may have
inside dpkg --install /edgesteer.deb
[[ $(inside stat -c '%U:%G %a' /etc/edgesteer /etc/edgesteer/edgesteer.toml) == $'root:edgesteer 750\nroot:edgesteer 640' ]] || fail "owner or mode of the configuration"
inside "${user[@]}" edgesteer check --config /etc/edgesteer/edgesteer.toml

# systemd makes these.
inside install -d -o edgesteer -g edgesteer -m 750 /var/lib/edgesteer /run/edgesteer
"${enter[@]}" "${user[@]}" edgesteer serve --config /etc/edgesteer/edgesteer.toml --admin unix:/run/edgesteer/admin.sock --listen 127.0.0.1:0 &>/mnt/log &
server=$!
for ((i = 0; i < 600; i++)); do
	[[ -S /mnt/root/run/edgesteer/admin.sock ]] && break
	sleep 0.1
done
inside edgesteer status | grep us-east-1 || { cat /mnt/log; fail "no status"; }
[[ $(inside stat -c '%U %a' /run/edgesteer/admin.sock) == 'edgesteer 660' ]] || fail "mode of the socket"
inside setpriv --reuid nobody --regid nogroup --clear-groups edgesteer status 2>/dev/null && fail "anybody may operate"
kill $server
wait $server || { cat /mnt/log; fail "the server did not stop well"; }

echo '# edited' >>/mnt/root/etc/edgesteer/edgesteer.toml
inside dpkg --install /edgesteer.deb
grep -q '^# edited' /mnt/root/etc/edgesteer/edgesteer.toml || fail "an upgrade replaced the configuration"
inside dpkg --remove edgesteer
[[ -e /mnt/root/etc/edgesteer/edgesteer.toml && -e /mnt/root/var/lib/edgesteer/ledger.json ]] || fail "removing took configuration or ledger"
inside dpkg --purge edgesteer
[[ ! -e /mnt/root/etc/edgesteer && ! -e /mnt/root/var/lib/edgesteer ]] || fail "purging left something"
echo "installed, used, removed"
