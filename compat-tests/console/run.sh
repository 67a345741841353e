#!/usr/bin/env bash
# The console in Chromium against bin/polylog: e2e.mjs with data of Kafka, AMQP, MQTT and HTTP clients in use and
# without users, users.mjs from the first user to the last. Each screen is looked at, in what it says and for errors of
# scripts and of the content security policy. Screenshots are in .cache/console/screenshots.
cd "$(dirname "$0")"
. ../harness/suite.sh
"$root/scripts/need.sh" chromium
node_packages
mkdir -p "$cache/screenshots"
rm -f "$cache"/screenshots/*.png
cp ./*.mjs "$cache/" # modules are looked for beside them

broker "kafka amqp http mqtt mqtt-ws" --webhook-allow 127.0.0.0/8
HTTP=$(address http) KAFKA=$(address kafka) AMQP=$(address amqp) MQTT=$(address mqtt) OUT=$cache/screenshots \
  timeout 600 node "$cache/e2e.mjs"
broker "http"
HTTP=$(address http) OUT=$cache/screenshots timeout 600 node "$cache/users.mjs"
