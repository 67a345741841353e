#!/usr/bin/env bash
# Users over MQTT with real clients against bin/polylog: right and wrong passwords, what is denied, another
# user's session, and a connection that ends with its user. run.sh has installed the clients.
cd "$(dirname "$0")"
. ../harness/suite.sh
"$root/scripts/need.sh" curl
python=${PYTHON:-$cache/venv/bin/python}

# put PATH BODY, as the administrator; as guest, from this machine, while there is none.
put() { curl -fsS -u "${who:-admin:admins}" -X PUT -H 'Content-Type: application/json' -d "$2" "http://$(address management)/api/$1"; }

# users starts a broker with an administrator, with alice, who may use what begins with my, and with bob.
users() {
  broker "mqtt mqtt-ws management"
  who=guest:guest put users/admin '{"password": "admins", "tags": "administrator"}'
  for user in alice bob; do
    put users/$user '{"password": "'$user's", "tags": ""}'
    put permissions/%2F/$user '{"configure": "^my", "write": "^my", "read": "^my"}'
  done
}

for version in 4 5; do
  users
  check "users: MQTT.js over WebSocket, protocol $version" env NODE_PATH="$cache/node_modules" node clients/login.cjs "ws://$(address mqtt-ws)/mqtt" "$version"
  check "users: mosquitto_pub, protocol $version" clients/login.sh "$(address mqtt)" "mqttv${version/4/311}"
  check "users: paho-mqtt for Python, protocol $version" "$python" clients/login.py "$(address mqtt)" "$(address management)" "$version"
done
exit $failed
