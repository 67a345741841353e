#!/usr/bin/env bash
# Polylog against Apache Kafka and the machine's limits; writes docs/benchmarks.md when everything
# was run. ROUNDS (5), ONLY=replay,small and further flags for a part. Takes about half an hour.
set -euo pipefail
cd "$(dirname "$0")"
../compat-tests/kafka/install.sh tools
go build -o ../.cache/kafka/bin/bench .
doc=()
if [ -z "${ONLY:-}" ]; then doc=(-doc ../docs/benchmarks.md); fi
exec ../.cache/kafka/bin/bench -rounds "${ROUNDS:-5}" -only "${ONLY:-}" "${doc[@]}" "$@"
