#!/usr/bin/env bash
# Puts the AMQP clients that are tested into .cache/amqp under the repository's root, each at the
# version that its lock file names; those of PHP and Ruby are Debian's. Does nothing that is done
# already. `install.sh rabbitmq` installs RabbitMQ itself, which the clients do not need, `perf-test` its
# load generator, and `probe` builds only what compares with RabbitMQ's answers.
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

# jars POM FOLDER
jars() {
  rm -rf "$2"
  mvn -B -q -f "$1" dependency:copy-dependencies -DoutputDirectory="$2" >"$cache/maven.out" 2>&1 ||
    { cat "$cache/maven.out"; exit 1; }
}

case "${1:-clients}" in
rabbitmq)
  packages rabbitmq-server
  exit
  ;;
perf-test)
  need java openjdk-17-jre-headless
  need mvn maven
  fresh perf-test ../../bench/amqp/pom.xml || {
    echo "RabbitMQ's load generator"
    jars ../../bench/amqp/pom.xml "$cache/perf-test"
    stamp perf-test ../../bench/amqp/pom.xml
  }
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
  jars clients/java/pom.xml "$cache/java"
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
