#!/usr/bin/env bash
# amqp091-go's own integration tests against a broker: amqp091-go.sh HOST:PORT [go test flags]
#
# Its recovery tests ask RabbitMQ's management API at localhost:15672 to close connections.
# SKIP=regexp leaves tests out. The reasons of known failures are in README.md beside this.
set -euo pipefail
addr=$1
shift
work=$(realpath "$(dirname "$0")/../../..")/.cache/amqp/foreign
mkdir -p "$work"
cd "$work"
[ -f go.mod ] || go mod init foreign >/dev/null 2>&1
go get -t github.com/rabbitmq/amqp091-go@v1.16.0
go test -c -tags integration -o amqp091.test github.com/rabbitmq/amqp091-go
# Some tests read the package's files.
cd "$(go list -m -f '{{.Dir}}' github.com/rabbitmq/amqp091-go)"
log=$work/amqp091-go.log
code=0
AMQP_URL="amqp://guest:guest@$addr/" "$work/amqp091.test" -test.v -test.count=1 -test.timeout "${LIMIT:-9m}" ${SKIP:+-test.skip "$SKIP"} "$@" >"$log" 2>&1 || code=$?
grep -E '^ *--- FAIL' "$log" || true
count() { grep -cE "^--- $1" "$log" || true; }
echo "output: $log"
echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped"
exit $code
