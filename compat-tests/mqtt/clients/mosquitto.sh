#!/usr/bin/env bash
# mosquitto_pub and mosquitto_sub against a broker: mosquitto.sh HOST:PORT VERSION QOS. The
# message is retained, so that it does not matter which of the two comes first.
set -euo pipefail
host=${1%:*} port=${1##*:} version=$2 qos=$3
topic=mosquitto/$version/$qos
mosquitto_pub -h "$host" -p "$port" -V "$version" -q "$qos" -r -t "$topic" -m "hello $qos"
[ "$(mosquitto_sub -h "$host" -p "$port" -V "$version" -q "$qos" -t "mosquitto/$version/+" -C 1 -W 20)" = "hello $qos" ]
mosquitto_pub -h "$host" -p "$port" -V "$version" -q 1 -r -n -t "$topic"
