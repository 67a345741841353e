#!/usr/bin/env bash
# Real MQTT clients against bin/polylog: Eclipse Paho for Python, Go and Java, MQTT.js, and HiveMQ's client for Java, all for
# MQTT 3.1.1 and 5, and mosquitto_pub and mosquitto_sub. With PAHO_TESTING set to
# the folder interoperability of a checkout of eclipse/paho.mqtt.testing, its two suites too. login.sh tries users.
cd "$(dirname "$0")"
. ../harness/suite.sh
python_packages
node_packages
"$root/scripts/need.sh" javac mvn mosquitto_pub
java=$(cat clients/java/pom.xml clients/java/src/main/java/*.java | sha256sum)
if [ "$java" != "$(cat "$cache/java.sum" 2>/dev/null)" ]; then
  rm -rf "$cache/java"
  mvn -B -q -f clients/java/pom.xml dependency:copy-dependencies -DoutputDirectory="$cache/java" >"$cache/maven.out" 2>&1 ||
    { cat "$cache/maven.out"; exit 1; }
  javac -nowarn -d "$cache/java/classes" -cp "$cache/java/*" clients/java/src/main/java/*.java
  echo "$java" >"$cache/java.sum"
fi
go build -o "$cache/paho-go" ./clients/go

broker "mqtt mqtt-ws"
tcp=$(address mqtt) ws=$(address mqtt-ws)

for version in 4 5; do
  check "Paho for Go, protocol $version" "$cache/paho-go" "$tcp" "$version"
  check "Paho for Java, protocol $version" java -cp "$cache/java/classes:$cache/java/*" Main "$tcp" paho "$version"
  check "HiveMQ's client, protocol $version" java -cp "$cache/java/classes:$cache/java/*" Main "$tcp" hivemq "$version"
  check "paho-mqtt for Python, protocol $version" "$cache/venv/bin/python" clients/paho_client.py "$tcp" "$version"
  check "MQTT.js, protocol $version" env NODE_PATH="$cache/node_modules" node clients/mqttjs_client.cjs "mqtt://$tcp" "$version"
  check "MQTT.js over WebSocket, protocol $version" env NODE_PATH="$cache/node_modules" node clients/mqttjs_client.cjs "ws://$ws/mqtt" "$version"
done

for version in mqttv311 mqttv5; do
  for qos in 0 1 2; do
    check "mosquitto_pub and mosquitto_sub, $version, QoS $qos" clients/mosquitto.sh "$tcp" "$version" "$qos"
  done
done

./login.sh || failed=1

if [ -n "${PAHO_TESTING:-}" ]; then
  # A broker as they want it: a filter that is refused, a keep-alive that is cut, and no more
  # publishes under way than their client answers in time.
  broker mqtt --mqtt-deny-subscribe test/nosubscribe --mqtt-max-keep-alive 60s --mqtt-receive-maximum 100
  tcp=$(address mqtt)
  sed "s/^ *port = 1883/  port = ${tcp##*:}/" "$PAHO_TESTING/client_test.py" >"$PAHO_TESTING/polylog_test3.py"
  check "paho.mqtt.testing 3.1.1, all of it" env -C "$PAHO_TESTING" python3 polylog_test3.py
  rm -f "$PAHO_TESTING/polylog_test3.py"
  cases=$(sed -n 's/^ *def \(test_[a-z0-9_]*\).*/\1/p' "$PAHO_TESTING/client_test5.py")
  for t in $cases; do
    check "paho.mqtt.testing 5 $t" env -C "$PAHO_TESTING" python3 client_test5.py -p "${tcp##*:}" "Test.$t"
  done
fi
exit $failed
