#!/usr/bin/env bash
# amqplib's own tests against a broker: amqplib.sh HOST:PORT SOURCE
#
# SOURCE is a checkout of amqplib, outside this repository. The reasons of known failures are in
# README.md beside this.
set -euo pipefail
addr=$1
cd "$2"
[ -f lib/defs.js ] || node bin/generate-defs.js >lib/defs.js
URL="amqp://guest:guest@$addr" node --test --test-timeout=20000
