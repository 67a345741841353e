#!/usr/bin/env bash
# Puts the Kafka clients that are tested into .cache/kafka under the repository's root, each at
# the version that its lock file names. Does nothing that is done already. `install.sh tools` does
# only Kafka's own tools and broker.
set -euo pipefail
cd "$(dirname "$0")"
cache=$(realpath ../..)/.cache/kafka
mkdir -p "$cache"

# need COMMAND PACKAGE…: what Debian has.
need() {
  command -v "$1" >/dev/null && return
  shift
  echo "installing $*"
  if [ -z "${updated:-}" ]; then apt-get update -qq; updated=1; fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
need javac openjdk-17-jdk-headless
need mvn maven
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

# jars POM VERSION FOLDER
jars() {
  rm -rf "$3"
  mvn -B -q -f "$1" dependency:copy-dependencies -Dkafka.version="$2" -DoutputDirectory="$3" >"$cache/maven.out" 2>&1 ||
    { cat "$cache/maven.out"; exit 1; }
}

fresh tools tools/pom.xml || {
  echo "Kafka's tools and broker"
  jars tools/pom.xml 4.3.1 "$cache/tools"
  stamp tools tools/pom.xml
}

[ "${1:-}" = tools ] && exit
need kcat kcat
need node nodejs
need npm npm
python3 -c 'import ensurepip' 2>/dev/null || need no-such-command python3-venv

for version in 4.3.1 3.9.2; do
  sources=(clients/java/pom.xml clients/java/src/main/java/*.java)
  fresh "java-$version" "${sources[@]}" && continue
  echo "Java client $version"
  dir=$cache/java-$version
  jars clients/java/pom.xml "$version" "$dir"
  javac -nowarn -d "$dir/classes" -cp "$dir/*" clients/java/src/main/java/*.java 2>&1 | { grep -v '^Note:' || true; }
  stamp "java-$version" "${sources[@]}"
done

fresh python clients/python/requirements.txt || {
  echo "Python clients"
  rm -rf "$cache/venv"
  python3 -m venv "$cache/venv"
  "$cache/venv/bin/pip" install -q --disable-pip-version-check --no-deps -r clients/python/requirements.txt
  stamp python clients/python/requirements.txt
}

fresh node clients/node/package-lock.json && [ -d clients/node/node_modules ] || {
  echo "kafkajs"
  npm ci --silent --no-audit --no-fund --prefix clients/node
  stamp node clients/node/package-lock.json
}

# Go's own cache makes this quick when nothing changed.
go build -o "$cache/bin/" ./clients/franz ./clients/sarama ./clients/kafkago
go build -o "$cache/bin/compat" .
