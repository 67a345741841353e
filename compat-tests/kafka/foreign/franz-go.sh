#!/usr/bin/env bash
# franz-go's own client tests against a broker: franz-go.sh HOST:PORT [go test flags]
#
# The broker must create topics by itself:
#
#   bin/polylog serve --broker-config auto.create.topics.enable=true --broker-config group.initial.rebalance.delay.ms=0
#
# SKIP=regexp leaves tests out: without transactions TestTxnEtl waits for ever. The reasons of known
# failures are in README.md beside this.
set -euo pipefail
addr=$1
shift
work=$(realpath "$(dirname "$0")/../../..")/.cache/kafka/foreign
mkdir -p "$work"
cd "$work"
[ -f go.mod ] || go mod init foreign >/dev/null 2>&1
go get -t github.com/twmb/franz-go/pkg/kgo@v1.22.3
go test -c -o kgo.test github.com/twmb/franz-go/pkg/kgo
# Some tests read the package's source.
cd "$(go list -m -f '{{.Dir}}' github.com/twmb/franz-go)/pkg/kgo"
log=$work/franz-go.log
code=0
KGO_SEEDS=$addr KGO_TEST_RF=1 KGO_TEST_RECORDS=${RECORDS:-10000} \
  "$work/kgo.test" -test.v -test.count=1 -test.timeout "${LIMIT:-10m}" ${SKIP:+-test.skip "$SKIP"} "$@" >"$log" 2>&1 || code=$?
grep -E '^ *--- FAIL' "$log" || true
count() { grep -cE "^--- $1" "$log" || true; }
echo "output: $log"
echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped"
exit $code
