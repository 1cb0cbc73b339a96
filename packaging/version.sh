#!/bin/sh
# The version of the source, as packages have it: that of the tag (v1.2.3 is 1.2.3); after a tag 1.2.3+4.gabcdef, and before the first 0.0.0~20261130.gabcdef.
set -eu
cd "$(dirname "$0")/.."
if described=$(git describe --tags --match 'v[0-9]*' 2>/dev/null); then
	echo "$described" | sed -e 's/^v//' -e 's/-\([0-9]*\)-g/+\1.g/' -e 's/-/~/g'
else
	echo "0.0.0~$(TZ=UTC git log -1 --date=format-local:%Y%m%d --format=%cd).g$(git rev-parse --short=9 HEAD)"
fi
