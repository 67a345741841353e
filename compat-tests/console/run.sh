#!/usr/bin/env bash
# The console in Chromium against bin/polylog, with data of Kafka, AMQP, MQTT and HTTP clients in
# use: each screen is looked at, in what it says and for errors of scripts and of the content
# security policy. Screenshots are in .cache/console/screenshots.
set -euo pipefail
cd "$(dirname "$0")"
root=$(realpath ../..)
cache=$root/.cache/console
"$root/scripts/need.sh" node npm chromium
mkdir -p "$cache/screenshots"
rm -f "$cache"/screenshots/*.png

if ! cmp -s package-lock.json "$cache/package-lock.json"; then
  cp package.json package-lock.json "$cache/"
  (cd "$cache" && npm ci --silent --no-audit --no-fund --ignore-scripts)
fi
cp ./*.mjs "$cache/" # modules are looked for beside them

work=$(mktemp -d)
"$root/bin/polylog" serve --data-dir "$work/data" --addr-file "$work/addresses" --log-level error --webhook-allow 127.0.0.0/8 \
  --kafka-listen 127.0.0.1:0 --amqp-listen 127.0.0.1:0 --management-listen off --http-listen 127.0.0.1:0 --mqtt-listen 127.0.0.1:0 --mqtt-ws-listen 127.0.0.1:0 >/dev/null &
broker=$!
trap 'kill $broker 2>/dev/null; wait $broker 2>/dev/null; rm -rf "$work"' EXIT
until [ -s "$work/addresses" ]; do
  kill -0 $broker 2>/dev/null || { echo "the broker ended" >&2; exit 1; }
  sleep 0.05
done
address() { sed -n "s/^$1=//p" "$work/addresses"; }

HTTP=$(address http) KAFKA=$(address kafka) AMQP=$(address amqp) MQTT=$(address mqtt) OUT=$cache/screenshots \
  timeout 600 node "$cache/e2e.mjs"
