#!/usr/bin/env bash
# The life of a cluster of three processes of bin/polylog under load: see main.go.
set -euo pipefail
cd "$(dirname "$0")"
exec go run . ${SHORT:+-short} ${SEED:+-seed "$SEED"}
