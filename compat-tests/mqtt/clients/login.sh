#!/usr/bin/env bash
# Users, with mosquitto_pub: login.sh ADDRESS VERSION. The broker is as ../login.sh makes it.
set -euo pipefail
at=(-h "${1%:*}" -p "${1##*:}" -V "$2" -t my/topic -q 1)
mosquitto_pub "${at[@]}" -m hello -u alice -P alices
for login in "-u alice -P wrong" "-u nobody -P alices" ""; do
  # shellcheck disable=SC2086 # they are words
  if mosquitto_pub "${at[@]}" -m hello $login 2>/dev/null; then
    echo "it went well: $login"
    exit 1
  fi
done
