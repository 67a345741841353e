#!/usr/bin/env bash
# nagios.sh HOST:PORT: the probes of nagios-plugins-rabbitmq, which have opinions of their own about
# what is in an answer. A probe exits with 0 when all is well.
set -euo pipefail
host=${1%:*} port=${1##*:}
probe() {
  local name=$1
  shift
  "check_rabbitmq_$name" -H "$host" --port "$port" -u guest -p guest "$@"
}
queue() { curl -fsS -u guest:guest -H 'Content-Type: application/json' "$@" >/dev/null; }

probe aliveness
probe overview -w 100,100,100 -c 200,200,200
probe objects
probe connections -w 100,100,100 -c 200,200,200
queue -X PUT "http://$1/api/queues/%2F/probed" -d '{}'
queue -X POST "http://$1/api/exchanges/%2F/amq.default/publish" \
  -d '{"properties":{},"routing_key":"probed","payload":"x","payload_encoding":"string"}'
probe queue --queue probed -w 10,10,10 -c 20,20,20
if probe queue --queue probed -w 0,0,0 -c 0,0,0; then echo "a full queue is none" >&2; exit 1; fi
queue -X DELETE "http://$1/api/queues/%2F/probed"
