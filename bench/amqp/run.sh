#!/usr/bin/env bash
# Polylog against RabbitMQ; writes its section of docs/benchmarks.md when everything was run.
# ROUNDS (3), ONLY=1-1,paced and further flags for a part. Takes about twenty minutes.
set -euo pipefail
cd "$(dirname "$0")"
cache=$(realpath ../..)/.cache/amqp
../../compat-tests/amqp/install.sh rabbitmq
../../compat-tests/amqp/install.sh perf-test
go build -o "$cache/bin/bench" .
doc=()
if [ -z "${ONLY:-}" ]; then doc=(-doc ../../docs/benchmarks.md); fi
exec "$cache/bin/bench" -bin ../../bin/polylog -libs "$cache/perf-test" -work ../../bench-data -rounds "${ROUNDS:-3}" -only "${ONLY:-}" "${doc[@]}" "$@"
