#!/usr/bin/env bash
# Puts the AMQP clients that are tested into .cache/amqp under the repository's root, each at the
# version that its lock file names; those of PHP and Ruby are Debian's. Does nothing that is done
# already. `install.sh rabbitmq` installs RabbitMQ itself, which the clients do not need.
set -euo pipefail
cd "$(dirname "$0")"
cache=$(realpath ../..)/.cache/amqp
mkdir -p "$cache"

# packages PACKAGE…: what Debian has. A service that comes along is not started.
packages() {
  local missing=()
  for p in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$p" 2>/dev/null | grep -qx installed || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return
  echo "installing ${missing[*]}"
  if [ -z "${updated:-}" ]; then apt-get update -qq; updated=1; fi
  local policy=/usr/sbin/policy-rc.d ours=
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    ours=1
  fi
  local code=0
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || code=$?
  if [ -n "$ours" ]; then rm -f $policy; fi
  return $code
}
# command COMMAND PACKAGE…: the packages, where the command is missing.
need() {
  command -v "$1" >/dev/null && return
  shift
  packages "$@"
}
# fresh STAMP FILE…: whether the step behind STAMP was done with just these files.
fresh() {
  local stamp=$1
  shift
  [ -f "$cache/$stamp.stamp" ] && cat "$@" | sha256sum | cmp -s - "$cache/$stamp.stamp"
}
stamp() {
  local stamp=$1
  shift
  cat "$@" | sha256sum >"$cache/$stamp.stamp"
}

case "${1:-clients}" in
rabbitmq)
  packages rabbitmq-server
  exit
  ;;
probe)
  go build -o "$cache/bin/" ./oracle
  exit
  ;;
esac

need javac openjdk-17-jdk-headless
need mvn maven
need node nodejs
need npm npm
packages php-cli php-amqplib ruby ruby-bunny
python3 -c 'import ensurepip' 2>/dev/null || packages python3-venv

sources=(clients/java/pom.xml clients/java/src/main/java/*.java)
fresh java "${sources[@]}" || {
  echo "Java client"
  rm -rf "$cache/java"
  mvn -B -q -f clients/java/pom.xml dependency:copy-dependencies -DoutputDirectory="$cache/java" >"$cache/maven.out" 2>&1 ||
    { cat "$cache/maven.out"; exit 1; }
  javac -nowarn -d "$cache/java/classes" -cp "$cache/java/*" clients/java/src/main/java/*.java
  stamp java "${sources[@]}"
}

fresh python clients/python/requirements.txt || {
  echo "Python clients"
  rm -rf "$cache/venv"
  python3 -m venv "$cache/venv"
  "$cache/venv/bin/pip" install -q --disable-pip-version-check --no-deps -r clients/python/requirements.txt
  stamp python clients/python/requirements.txt
}

fresh node clients/node/package-lock.json && [ -d clients/node/node_modules ] || {
  echo "amqplib"
  npm ci --silent --no-audit --no-fund --prefix clients/node
  stamp node clients/node/package-lock.json
}

# Go's own cache makes this quick when nothing changed.
go build -o "$cache/bin/" ./clients/go ./oracle
go build -o "$cache/bin/compat" .
