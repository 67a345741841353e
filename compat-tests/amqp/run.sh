#!/usr/bin/env bash
# Real AMQP clients against bin/polylog, or against TARGET: rabbitmq, or a broker's address.
# ONLY=pika,java and SCENARIO=tx,stream run a part; a whole run writes its section of
# docs/compatibility.md.
set -euo pipefail
cd "$(dirname "$0")"
./install.sh
if [ "${TARGET:-}" = rabbitmq ]; then ./install.sh rabbitmq; fi
doc=()
if [ -z "${TARGET:-}${ONLY:-}${SCENARIO:-}$*" ]; then doc=(-doc ../../docs/compatibility.md); fi
exec ../../.cache/amqp/bin/compat -target "${TARGET:-polylog}" -only "${ONLY:-}" -scenario "${SCENARIO:-}" "${doc[@]}" "$@"
