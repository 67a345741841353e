#!/usr/bin/env bash
# Kafka Streams' own WordCount, unmodified, on a real text, with the broker killed in the middle.
#
# Half of the text goes in through Kafka's console producer while WordCount counts and Kafka's
# console consumer shows the counts arriving. Then the broker is killed with SIGKILL. The producer,
# WordCount and the consumer stay alive: the producer is given the other half while there is no
# broker. The broker starts again on its data, and in the end the counts must equal those of
# tr | sort | uniq.
#
# WordCount runs with Kafka's default guarantee, at least once: what it had counted but not yet
# committed when it loses its group, it counts again. So the kill waits until the first half is
# committed; without that the comparison could fail on any broker. What is shown is that the broker
# keeps every record, offset and count, and that clients go on by themselves.
#
# TEXT=file is another text; TARGET=apache runs the same against Apache Kafka.
set -euo pipefail
cd "$(dirname "$0")"
root=$(realpath ../..)
cache=$root/.cache/demo
text=${TEXT:-/usr/share/common-licenses/GPL-3}
target=${TARGET:-polylog}
work=$(mktemp -d)
say() { printf '%4ds  %s\n' $SECONDS "$*"; }

pids=()
finish() {
  code=$?
  exec 3>&- || true
  for p in "${pids[@]}"; do { kill -9 "$p" && wait "$p"; } 2>/dev/null || true; done
  [ $code -eq 0 ] && rm -rf "$work" || echo "outputs: $work"
}
trap finish EXIT

mkdir -p "$cache"
if ! sha256sum pom.xml | cmp -s - "$cache/stamp"; then
  say "fetching Kafka Streams' examples and Kafka's console tools"
  rm -rf "$cache/jars"
  mvn -B -q dependency:copy-dependencies -DoutputDirectory="$cache/jars" >"$work/maven.out" 2>&1 || { cat "$work/maven.out"; exit 1; }
  sha256sum pom.xml >"$cache/stamp"
fi
cat >"$work/log4j2.xml" <<'X'
<Configuration status="ERROR"><Appenders><Console name="C" target="SYSTEM_ERR"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="C"/></Root></Loggers></Configuration>
X
jvm=(java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile="$work/log4j2.xml" -cp "$cache/jars/*")

if [ "$target" = apache ]; then
  ../kafka/install.sh tools
  addr=127.0.0.1:19392
  cat >"$work/server.properties" <<X
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:19393
listeners=PLAINTEXT://$addr,CONTROLLER://127.0.0.1:19393
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=$work/logs
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
group.initial.rebalance.delay.ms=0
X
  server=(java -Xmx512m -Dlog4j2.configurationFile="$work/log4j2.xml" -cp "$root/.cache/kafka/tools/*")
  "${server[@]}" kafka.tools.StorageTool format -t cG9seWxvZy1vcmFjbGUtMQ -c "$work/server.properties" >"$work/broker.out"
fi

# The broker must not hold the producer's input, fd 3, open.
start_broker() {
  if [ "$target" = apache ]; then
    "${server[@]}" kafka.Kafka "$work/server.properties" >>"$work/broker.out" 2>&1 3>&- &
    broker=$!
    until (exec 4<>"/dev/tcp/${addr/://}") 2>/dev/null; do sleep 0.2; done
  else
    rm -f "$work/addresses"
    "$root/bin/polylog" serve --data-dir "$work/data" --kafka-listen "${addr:-127.0.0.1:0}" --amqp-listen off --management-listen off --http-listen 127.0.0.1:0 --mqtt-listen off --mqtt-ws-listen off --kafka-rest-listen off --nsq-listen off \
      --addr-file "$work/addresses" --broker-config group.initial.rebalance.delay.ms=0 >>"$work/broker.out" 2>&1 3>&- &
    broker=$!
    until [ -s "$work/addresses" ]; do
      kill -0 "$broker" || { cat "$work/broker.out"; exit 1; }
      sleep 0.05
    done
    addr=$(sed -n 's/^kafka=//p' "$work/addresses")
  fi
  pids+=("$broker")
}

# In the background a tool is started without this, so that $! is the JVM's.
tool() { "${jvm[@]}" "org.apache.kafka.tools.$@"; }

start_broker
say "broker: $target, pid $broker, $addr"
for topic in streams-plaintext-input streams-wordcount-output; do
  tool TopicCommand --bootstrap-server "$addr" --create --topic $topic --partitions 2 >/dev/null
done

cat >"$work/streams.properties" <<X
bootstrap.servers=$addr
state.dir=$work/state
commit.interval.ms=200
X
"${jvm[@]}" org.apache.kafka.streams.examples.wordcount.WordCountDemo "$work/streams.properties" >"$work/streams.out" 2>&1 &
streams=$!
pids+=($streams)
"${jvm[@]}" org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$addr" --topic streams-wordcount-output --from-beginning --group demo-counts \
  --formatter-property print.key=true --formatter-property key.separator=' ' \
  --formatter-property key.deserializer=org.apache.kafka.common.serialization.StringDeserializer \
  --formatter-property value.deserializer=org.apache.kafka.common.serialization.LongDeserializer >"$work/counts" 2>"$work/consumer.out" &
consumer=$!
pids+=($consumer)
mkfifo "$work/lines"
"${jvm[@]}" org.apache.kafka.tools.ConsoleProducer --bootstrap-server "$addr" --topic streams-plaintext-input <"$work/lines" >"$work/producer.out" 2>&1 &
producer=$!
pids+=($producer)
exec 3>"$work/lines"
say "WordCountDemo, pid $streams; console producer, pid $producer; console consumer, pid $consumer"

lines=$(wc -l <"$text")
half=$((lines / 2))
words() { LC_ALL=C tr 'A-Z' 'a-z' | LC_ALL=C tr -cs 'a-z0-9_' '\n' | grep . ; }
arrived() { awk 'NF==2 {c[$1]=$2} END {for (w in c) n+=c[w]; print n+0}' "$work/counts"; }

# feed FROM TO: those lines, a hundred at a time.
feed() {
  local at
  for ((at = $1; at <= $2; at += 100)); do
    sed -n "${at},$((at + 99 < $2 ? at + 99 : $2))p" "$text" >&3
    sleep 0.3
  done
}

# await N: until the counts add up to N words, or two minutes pass.
await() {
  local n last=-1 tries=0
  while n=$(arrived); [ "$n" -lt "$1" ]; do
    if [ "$n" != "$last" ]; then
      say "$n of $1 words counted, latest: $(tail -n 3 "$work/counts" | sed 's/ /=/' | tr '\n' ' ')"
      last=$n
    fi
    for p in $streams $producer $consumer; do
      kill -0 "$p" || { say "a client has ended: $p"; tail -n 20 "$work"/*.out; exit 1; }
    done
    tries=$((tries + 1))
    [ $tries -lt 240 ] || { say "stuck at $n of $1 words"; tail -n 5 "$work"/*.out; exit 1; }
    sleep 0.5
  done
  say "$n words counted"
}

# committed: waits until WordCount has committed all that there is for it.
committed() {
  local tries
  for ((tries = 0; tries < 30; tries++)); do
    if tool consumer.group.ConsumerGroupCommand --bootstrap-server "$addr" --describe --group streams-wordcount 2>/dev/null |
      awk '$1 == "streams-wordcount" && $6 != "-" {lag += $6; n++} END {exit !(n >= 2 && lag == 0)}'; then
      return
    fi
  done
  say "WordCount does not commit"
  exit 1
}

say "feeding lines 1 to $half of $text"
feed 1 $half
await "$(head -n $half "$text" | words | wc -l)"
committed
kill -9 $broker
wait $broker 2>/dev/null || true
say "KILLED the broker (SIGKILL); feeding lines $((half + 1)) to $lines to a producer that has no broker"
feed $((half + 1)) "$lines"
start_broker
say "broker started again on the same data, pid $broker; WordCount, producer and consumer are the same processes"
await "$(words <"$text" | wc -l)"

exec 3>&- # the producer sees the end of its input, and ends
wait $producer || { say "the producer failed"; tail -n 20 "$work/producer.out"; exit 1; }
committed
sleep 1 # anything that was counted twice would come now
awk 'NF==2 {c[$1]=$2} END {for (w in c) print c[w], w}' "$work/counts" | LC_ALL=C sort -k2 >"$work/streamed"
words <"$text" | LC_ALL=C sort | uniq -c | awk '{print $1, $2}' | LC_ALL=C sort -k2 >"$work/plain"
echo
LC_ALL=C sort -rn "$work/streamed" | sed -n 1,8p
echo
if ! diff "$work/plain" "$work/streamed" >"$work/diff"; then
  say "counts differ (< plain, > streamed):"
  head -n 20 "$work/diff"
  exit 1
fi
say "all $(wc -l <"$work/plain") words have the counts of tr | sort | uniq -c, across a kill -9"
