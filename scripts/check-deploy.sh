#!/usr/bin/env bash
# check-deploy.sh asks the tools that will read them what they think of the files in deploy/: promtool and
# systemd-analyze, and docker compose, where they are installed.
set -euo pipefail
cd "$(dirname "$0")/../deploy"
if command -v promtool >/dev/null; then
  promtool check config prometheus/prometheus.yml
else
  echo "skip prometheus: no promtool, which is in Debian's package prometheus"
fi
if command -v systemd-analyze >/dev/null; then
  # The binary is not installed where it is checked: that alone may be said.
  said=$(systemd-analyze verify polylog.service 2>&1 | grep -v 'not executable: No such file' || true)
  if [ -n "$said" ]; then
    echo "$said"
    exit 1
  fi
  echo "polylog.service is valid"
else
  echo "skip polylog.service: no systemd-analyze"
fi
if docker compose version >/dev/null 2>&1; then
  docker compose -f compose/compose.yaml config --quiet
  echo "compose.yaml is valid"
else
  echo "skip compose.yaml: no docker compose"
fi
