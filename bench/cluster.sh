#!/usr/bin/env bash
# Three nodes against one; writes its section of docs/benchmarks.md. ROUNDS (5) and further flags.
set -euo pipefail
cd "$(dirname "$0")"
../compat-tests/kafka/install.sh tools
mkdir -p ../.cache/bench
go build -o ../.cache/bench/bench .
exec ../.cache/bench/bench -cluster -rounds "${ROUNDS:-5}" -doc ../docs/benchmarks.md "$@"
