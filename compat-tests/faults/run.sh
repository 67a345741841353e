#!/usr/bin/env bash
# Runs three nodes on a network and on disks that fail, and looks for broken promises: FAULTS faults
# (40) in DURATION (8m), with at least MESSAGES acknowledged ones (1000000), at most RATE a second (2400). SEED repeats a schedule;
# PATIENT judges only what is lost; more is in docs/faults.md. It needs root for namespaces, mounts and devices.
set -euo pipefail
cd "$(dirname "$0")"
../../scripts/need.sh mkfs.ext4 mount unshare
go -C ../harness test ./...
go build -o ../../bin/faults .
run=(../../bin/faults -faults "${FAULTS:-40}" -duration "${DURATION:-8m}" -messages "${MESSAGES:-1000000}" -rate "${RATE:-2400}" ${SEED:+-seed "$SEED"} ${PATIENT:+-patient} "$@")
if [ "$(id -u)" -eq 0 ]; then
  go test -count=1 ./... # the checkers must be able to fail, and the disk to lose
  exec "${run[@]}"
fi
exec sudo "${run[@]}"
