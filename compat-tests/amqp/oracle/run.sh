#!/usr/bin/env bash
# Asks bin/polylog what RabbitMQ was asked, and prints every difference. With -live RabbitMQ is asked
# too, side by side; -live -write keeps its answers in testdata. ONLY=settle runs the probes whose names
# contain it.
set -euo pipefail
cd "$(dirname "$0")"
if [ "${1:-}" = -live ]; then ../install.sh rabbitmq; fi
../install.sh probe
exec ../../../.cache/amqp/bin/oracle -only "${ONLY:-}" "$@"
