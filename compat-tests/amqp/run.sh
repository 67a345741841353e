#!/usr/bin/env bash
# Real AMQP clients against bin/polylog, or against TARGET: rabbitmq, or a broker's address.
# ONLY=pika,java and SCENARIO=tx,stream run a part; a whole run writes its section of
# docs/compatibility.md, and tries users, too (login.sh).
set -euo pipefail
cd "$(dirname "$0")"
./install.sh
if [ "${TARGET:-}" = rabbitmq ]; then ./install.sh rabbitmq; fi
doc=() code=0
if [ -z "${TARGET:-}${ONLY:-}${SCENARIO:-}$*" ]; then doc=(-doc ../../docs/compatibility.md); fi
../../.cache/amqp/bin/compat -target "${TARGET:-polylog}" -only "${ONLY:-}" -scenario "${SCENARIO:-}" "${doc[@]}" "$@" || code=$?
if [ ${#doc[@]} -gt 0 ]; then ./login.sh || code=$?; fi
exit $code
