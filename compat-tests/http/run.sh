#!/usr/bin/env bash
# Public clients and libraries of HTTP, webhooks and CloudEvents against bin/polylog, and every script of
# README.md, docs/http.md and docs/nsq.md. With SHORT=1 without schemathesis, which makes thousands of calls.
cd "$(dirname "$0")"
. ../harness/suite.sh
"$root/scripts/need.sh" python3 curl
python_packages
node_packages
cp clients/presets.cjs "$cache/" # packages are looked for beside it
python=$cache/venv/bin/python

serve() {
  broker "http kafka-rest nsq mqtt" --webhook-allow 127.0.0.0/8 "$@"
  HTTP=$(address http)
  KAFKA_REST=$(address kafka-rest)
  NSQ=$(address nsq)
  MQTT=$(address mqtt)
  export HTTP KAFKA_REST NSQ MQTT
}
serve
check "OpenAPI: every call, and each answer" "$python" clients/openapi.py
check "Standard Webhooks' library, both ways" "$python" clients/standard.py
check "cloudevents: binary, structured, batch" "$python" clients/events.py
check "sseclient and websockets" "$python" clients/streams.py
check "Kafka REST: requests" "$python" clients/kafkarest.py
check "gnsq: NSQ's HTTP interface" "$python" clients/nsq.py
for part in github stripe eventSource; do
  check "Node: $part" node "$cache/presets.cjs" "$part"
done
for document in README.md docs/http.md docs/nsq.md; do
  serve # documents begin with an empty broker
  check "curl: $document" "$python" clients/docs.py "$root/$document"
done
if [ -z "${SHORT:-}" ]; then
  serve
  # Streams have no end, which it would wait for.
  check "schemathesis" "$cache/venv/bin/schemathesis" run "http://$HTTP/openapi.json" --phases coverage,fuzzing --max-examples 5 \
    --exclude-path-regex '/(stream|ws)$' --request-timeout 40 --no-color --workers 4 \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance
fi
exit $failed
