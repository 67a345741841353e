#!/usr/bin/env bash
# Tools that speak RabbitMQ's management API against bin/polylog: rabbitmqadmin, RabbitMQ's HTTP client
# for Java, the probes of nagios-plugins-rabbitmq. With API=host:port and AMQP_PORT=n against another
# broker, such as RabbitMQ.
cd "$(dirname "$0")"
. ../harness/suite.sh
"$root/scripts/need.sh" python3 curl javac mvn
command -v check_rabbitmq_overview >/dev/null || "$root/scripts/need.sh" nagios-plugins-rabbitmq

# rabbitmqadmin is a script in RabbitMQ's package, of which nothing else is wanted here.
if [ ! -f "$cache/rabbitmqadmin" ]; then
  echo "rabbitmqadmin"
  rm -rf "$cache/deb"
  mkdir "$cache/deb"
  (cd "$cache/deb" && { apt-get download -qq rabbitmq-server || { apt-get update -qq && apt-get download -qq rabbitmq-server; }; } 2>/dev/null && dpkg -x ./*.deb .)
  cp "$cache"/deb/usr/lib/rabbitmq/lib/*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin "$cache/"
  rm -rf "$cache/deb"
fi
if ! cat pom.xml clients/Hop.java | cmp -s - "$cache/hop.stamp"; then
  echo "HTTP client for Java"
  rm -rf "$cache/hop"
  mvn -B -q -f pom.xml dependency:copy-dependencies -DoutputDirectory="$cache/hop" >"$cache/maven.out" 2>&1 || { cat "$cache/maven.out"; exit 1; }
  javac -nowarn -d "$cache/hop/classes" -cp "$cache/hop/*" clients/Hop.java
  cat pom.xml clients/Hop.java >"$cache/hop.stamp"
fi

ours=
if [ -z "${API:-}" ]; then
  ours=1
  broker "amqp management"
  API=$(address management) AMQP_PORT=$(address amqp)
  AMQP_PORT=${AMQP_PORT##*:}
fi

check "rabbitmqadmin" clients/rabbitmqadmin.sh "$cache/rabbitmqadmin" "$API"
check "HTTP client for Java" java -cp "$cache/hop/classes:$cache/hop/*" Hop "http://$API/api/" "$AMQP_PORT"
check "nagios-plugins-rabbitmq" clients/nagios.sh "$API"
if [ -n "$ours" ]; then # no other broker has users as ours
  broker "amqp management"
  check "rabbitmqadmin, users" clients/rabbitmqadmin_users.sh "$cache/rabbitmqadmin" "$(address management)"
fi
exit $failed
