#!/usr/bin/env bash
# Polylog against Mosquitto; writes its section of docs/benchmarks.md when everything was run.
# ROUNDS (5), ONLY=q0,idle and further flags for a part. Takes about a quarter of an hour.
set -euo pipefail
cd "$(dirname "$0")"
PATH=$PATH:/usr/sbin ../../scripts/need.sh mosquitto
cache=$(realpath ../..)/.cache/mqtt
mkdir -p "$cache/bin"
go build -o "$cache/bin/bench" .
doc=()
if [ -z "${ONLY:-}" ]; then doc=(-doc ../../docs/benchmarks.md); fi
exec "$cache/bin/bench" -bin ../../bin/polylog -work ../../bench-data -rounds "${ROUNDS:-5}" -only "${ONLY:-}" "${doc[@]}" "$@"
