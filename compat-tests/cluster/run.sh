#!/usr/bin/env bash
# The life of a cluster of three processes of bin/polylog under load: see main.go. With OLD, a commit,
# it begins with that version's binary, and is upgraded to this one.
set -euo pipefail
cd "$(dirname "$0")"
old=
if [ -n "${OLD:-}" ]; then
	tree=$(mktemp -d)
	trap 'rm -rf "$tree"' EXIT
	git -C ../.. archive "$OLD" | tar -x -C "$tree"
	old=$tree/polylog-$OLD
	(cd "$tree" && CGO_ENABLED=0 go build -trimpath -o "$old" ./cmd/polylog)
fi
go run . ${SHORT:+-short} ${SEED:+-seed "$SEED"} ${old:+-old "$old"}
