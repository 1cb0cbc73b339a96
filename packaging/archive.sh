#!/bin/sh
# archive.sh ARCH VERSION: the binary with documents and examples as dist/edgesteer_VERSION_linux_ARCH.tar.gz. SOURCE_DATE_EPOCH is the time of all that is in it.
set -eu
cd "$(dirname "$0")/.."
arch=$1 name=edgesteer_$2_linux_$1
work=dist/archive/$name
rm -rf dist/archive
mkdir -p "$work"
cp "dist/$arch/edgesteer" README.md CHANGELOG.md LICENSE NOTICE "$work"
cp -r packaging/example packaging/guide packaging/systemd packaging/prometheus packaging/grafana dist/man dist/completion "$work"
tar --create --use-compress-program='gzip -9n' --file "dist/$name.tar.gz" --directory dist/archive --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go-w "$name"
rm -rf dist/archive
