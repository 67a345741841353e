#!/usr/bin/env bash
# HTTP against a bare echo and nsqd; writes its section of docs/benchmarks.md when everything was run.
# ROUNDS (5), ONLY=one,batch,webhooks and further flags for a part. Takes about a quarter of an hour.
set -euo pipefail
cd "$(dirname "$0")"
../../scripts/need.sh wrk
cache=$(realpath ../..)/.cache/bench-http
mkdir -p "$cache"
(cd nsqd && go build -o "$cache/nsqd" github.com/nsqio/nsq/apps/nsqd)
go build -o "$cache/bench" .
doc=()
if [ -z "${ONLY:-}" ]; then doc=(-doc ../../docs/benchmarks.md); fi
exec "$cache/bench" -bin ../../bin/polylog -nsqd "$cache/nsqd" -work ../../bench-data -rounds "${ROUNDS:-5}" -only "${ONLY:-}" "${doc[@]}" "$@"
