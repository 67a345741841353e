#!/usr/bin/env bash
# Kills bin/polylog under load KILLS times (30) and looks for what was lost; SEED repeats a run.
set -euo pipefail
cd "$(dirname "$0")"
go -C ../harness test ./... # the checkers must be able to fail
exec go run . -kills "${KILLS:-30}" ${SEED:+-seed "$SEED"}
