#!/usr/bin/env bash
# librdkafka's own test suite against a broker: librdkafka.sh HOST:PORT SOURCE [TEST…]
#
# SOURCE is a checkout of librdkafka, outside this repository, in whose folder build/ this makes
# what is missing. The broker must create topics by itself, with four partitions:
#
#   bin/polylog serve --broker-config auto.create.topics.enable=true --broker-config num.partitions=4 \
#     --broker-config group.initial.rebalance.delay.ms=0
#
# Tests that call Kafka's scripts find them when ../install.sh has fetched its tools.
#
# Each test is a process of its own with LIMIT seconds (180), JOBS (3) at a time; its output stays
# in SOURCE/build/results. PROTOCOL=consumer runs the tests with the new group protocol. The reasons
# of known failures are in README.md beside this.
set -uo pipefail
addr=$1
source=$(realpath "$2")
jars=$(realpath "$(dirname "$0")/../../..")/.cache/kafka/tools
shift 2
build=$source/build
if [ ! -x "$build/tests/test-runner" ]; then
  cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DWITH_SSL=OFF -DWITH_SASL=OFF -DWITH_CURL=OFF \
    -DCMAKE_C_FLAGS="-fmacro-prefix-map=$source/tests/=" -DRDKAFKA_BUILD_TESTS=ON -DRDKAFKA_BUILD_EXAMPLES=OFF >/dev/null && make -C "$build" -j"$(nproc)" >/dev/null || exit 2
fi
cd "$source/tests" || exit 2
if [ -d "$jars" ]; then
  mkdir -p "$build/kafka/bin"
  while read -r script class; do
    printf '#!/bin/sh\nexec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "%s/*" %s "$@"\n' "$jars" "$class" >"$build/kafka/bin/$script.sh"
    chmod +x "$build/kafka/bin/$script.sh"
  done <<X
kafka-topics org.apache.kafka.tools.TopicCommand
kafka-configs kafka.admin.ConfigCommand
kafka-acls org.apache.kafka.tools.AclCommand
X
  export KAFKA_PATH=$build/kafka BROKERS=$addr
fi
echo "bootstrap.servers=$addr" >test.conf
results=$build/results
mkdir -p "$results"
export LD_LIBRARY_PATH=$build/src:$build/src-cpp TEST_KAFKA_VERSION=${KAFKA_VERSION:-4.2.0} CI=true
[ -n "${PROTOCOL:-}" ] && export TEST_CONSUMER_GROUP_PROTOCOL=$PROTOCOL
export build results LIMIT=${LIMIT:-180}

one() {
  begin=$SECONDS
  TESTS=$1 timeout "$LIMIT" "$build/tests/test-runner" -p1 -Q -E >"$results/$1.log" 2>&1
  code=$?
  outcome=failed
  if [ $code -eq 0 ]; then
    outcome=passed
    grep -q "${1}_[a-z0-9_]* *|.*SKIPPED" "$results/$1.log" && outcome=skipped
  elif [ $code -eq 124 ]; then
    outcome=timeout
  fi
  echo "$1 $outcome $((SECONDS - begin))s"
}
export -f one

tests=("$@")
[ ${#tests[@]} -gt 0 ] || mapfile -t tests < <(printf "%s\n" 0* | sed -n 's/^\(0[0-9]\{3\}\)-.*\.c\(pp\)\{0,1\}$/\1/p' | sort -u)
printf '%s\n' "${tests[@]}" | xargs -P "${JOBS:-3}" -I{} bash -c 'one {}' | tee "$results/summary"
awk '{n[$2]++} END {printf "%d passed, %d failed, %d skipped\n", n["passed"], n["failed"]+n["timeout"], n["skipped"]}' "$results/summary"
