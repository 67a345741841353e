#!/usr/bin/env bash
# Kills bin/polylog while it delivers webhooks KILLS times (20) and looks for what was lost, with BACKLOG (10,000)
# messages waiting each time; SEED repeats a run.
set -euo pipefail
cd "$(dirname "$0")"
go -C ../../harness test ./...
go test . ../load # the checkers must be able to fail
exec go run . -kills "${KILLS:-20}" ${BACKLOG:+-backlog "$BACKLOG"} ${SEED:+-seed "$SEED"}
