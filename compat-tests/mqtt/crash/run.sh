#!/usr/bin/env bash
# Kills bin/polylog under MQTT load KILLS times (20) and looks for what was lost; SEED repeats a run.
set -euo pipefail
cd "$(dirname "$0")"
go -C ../../harness test ./...
go test . ../load # the checkers must be able to fail
exec go run . -kills "${KILLS:-20}" ${SEED:+-seed "$SEED"}
