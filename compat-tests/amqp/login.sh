#!/usr/bin/env bash
# Users over AMQP with real clients against bin/polylog: right and wrong passwords, a virtual host that
# is refused, what is denied, and a connection that ends with its user. Users are made over RabbitMQ's
# management API, as RabbitMQ's are. run.sh has installed the clients.
cd "$(dirname "$0")"
. ../harness/suite.sh
"$root/scripts/need.sh" curl
python=${PYTHON:-$cache/venv/bin/python}

# put PATH BODY, as the administrator; as guest, from this machine, while there is none.
put() { curl -fsS -u "${who:-admin:admins}" -X PUT -H 'Content-Type: application/json' -d "$2" "http://$(address management)/api/$1"; }

# users starts a broker with an administrator, and with alice, who may use what begins with my.
users() {
  broker "amqp management"
  who=guest:guest put users/admin '{"password": "admins", "tags": "administrator"}'
  put vhosts/other '{}'
  put users/alice '{"password": "alices", "tags": ""}'
  put permissions/%2F/admin '{"configure": ".*", "write": ".*", "read": ".*"}'
  put permissions/%2F/alice '{"configure": "^my", "write": "^my", "read": "^my"}'
}

users
check "pika" "$python" clients/python/pika_login.py "$(address amqp)" "$(address management)"
users
check "amqp091-go" go run ./clients/login "$(address amqp)" "$(address management)"
exit $failed
