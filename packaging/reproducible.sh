#!/bin/bash
# Builds the present commit twice, in folders of different names and, unless SHARED_CACHE is set, the second with a cache of its own, and compares the binaries.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$(git rev-parse HEAD)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
for copy in one another/and-deeper; do
	git clone --quiet --no-hardlinks --no-checkout . "$work/$copy"
	git -C "$work/$copy" checkout --quiet --detach "$commit"
	if [[ $copy != one && -z ${SHARED_CACHE:-} ]]; then
		export GOCACHE=$work/cache
	fi
	make --silent -C "$work/$copy" static OUT="$work/$copy/edgesteer"
	sha256sum "$work/$copy/edgesteer"
done
cmp "$work/one/edgesteer" "$work/another/and-deeper/edgesteer"
echo "the same"
