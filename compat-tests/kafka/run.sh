#!/usr/bin/env bash
# Real Kafka clients against bin/polylog, or against TARGET: apache, or a broker's address.
# ONLY=kcat,sarama and SCENARIO=group,static run a part; a whole run writes its section
# of docs/compatibility.md.
# -failover runs them against three nodes, whose leader is stopped and killed.
# -sasl has them log in to a broker with users, by each mechanism, with right and wrong passwords.
set -euo pipefail
cd "$(dirname "$0")"
./install.sh
doc=()
if [ -z "${TARGET:-}${ONLY:-}${SCENARIO:-}$*" ]; then doc=(-doc ../../docs/compatibility.md); fi
exec ../../.cache/kafka/bin/compat -target "${TARGET:-polylog}" -only "${ONLY:-}" -scenario "${SCENARIO:-}" "${doc[@]}" "$@"
