#!/usr/bin/env bash
# need.sh COMMAND... makes sure that the commands are there, from Debian's packages where
# they are missing. It touches nothing on a machine that has them.
set -euo pipefail

declare -A package=(
  [gcc]="gcc libc6-dev"
  [java]=openjdk-17-jre-headless
  [javac]=openjdk-17-jdk-headless
  [mvn]=maven
  [node]=nodejs
  [npm]=npm
  [python3]=python3
  [kcat]=kcat
  [curl]=curl
  [mkfs.ext4]=e2fsprogs
  [mosquitto_pub]=mosquitto-clients
)

missing=()
for command in "$@"; do
  command -v "$command" >/dev/null || missing+=(${package[$command]:-$command})
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing ${missing[*]}"
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get -qq update
"${as_root[@]}" apt-get -qq install --yes --no-install-recommends "${missing[@]}" >/dev/null
