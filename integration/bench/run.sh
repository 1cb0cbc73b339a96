#!/bin/bash
# integration/bench/run.sh [ROUNDS]: measures edgesteer beside Knot, gdnsd and the C echo with the shared harness, and writes RESULTS.md.
#
# HARNESS  the harness's folder (default ../shared/bench beside this repository); it says there what it needs: Debian's knot, gdnsd and dnsperf, gcc, python3, npm
# ROWS     what to measure; TCP_ROWS the same over TCP; KEEP=FILE also keeps the raw results
# B        where the harness builds and keeps its database (default /tmp/bench)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
harness=${HARNESS:-$root/../shared/bench}
rounds=${1:-8}
export B=${B:-/tmp/bench}
[[ -x $harness/run.sh && -e $harness/bench.py ]] || {
	echo "integration/bench: no harness in $harness" >&2
	echo "hint: set HARNESS to the folder with run.sh and bench.py" >&2
	exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$harness" "$work/harness" # it builds in its own folder
harness=$work/harness
export OURS=$work/edgesteer
(cd "$root" && go build -trimpath -o "$OURS" ./cmd/edgesteer)
raw=${KEEP:-$work/results.jsonl}
(cd "$harness" && NO_COREDNS=1 ./run.sh setup && ./run.sh build) >"$work/build.log" 2>&1 || { tail "$work/build.log" >&2; exit 1; }
# Many short interleaved runs: what disturbs the machine disturbs all rows.
python3 "$harness/bench.py" run -r "$rounds" -o "$raw" ${ROWS:-ours-geo gdnsd-geo knot-geo ours-static gdnsd-static knot-static echo-c-batch}
python3 "$harness/bench.py" tcp -r "$((rounds < 3 ? rounds : 3))" -o "$raw" ${TCP_ROWS:-ours-geo knot-geo gdnsd-geo}
cd "$root" && go run ./integration/bench -commit "$(git describe --always --dirty)" -o "$here/RESULTS.md" "$raw"
