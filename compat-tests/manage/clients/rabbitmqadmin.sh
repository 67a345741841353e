#!/usr/bin/env bash
# rabbitmqadmin.sh SCRIPT HOST:PORT: what people do with rabbitmqadmin, each command, and what it says.
. "$(dirname "$0")/says.sh"

says rabbitmq_version show overview
says running list nodes name running
says "vhost declared" declare vhost name=admin
says admin list vhosts name
says "permission declared" declare permission vhost=admin user=guest configure='.*' write='.*' read='.*'
says guest list users
says admin list permissions
says "exchange declared" -V admin declare exchange name=x type=topic durable=true
says "queue declared" -V admin declare queue name=q durable=true 'arguments={"x-max-length": 100}'
says "queue declared" -V admin declare queue name=big queue_type=quorum
fails inequivalent -V admin declare queue name=q durable=false
says "binding declared" -V admin declare binding source=x destination=q routing_key='a.*'
says 'a.*' -V admin list bindings source routing_key
says topic -V admin list exchanges name type
says "Message published" -V admin publish exchange=x routing_key=a.b payload=hello 'properties={"delivery_mode": 2, "headers": {"n": 1}}'
says "NOT routed" -V admin publish exchange=x routing_key=z payload=hello
says hello -V admin get queue=q ackmode=ack_requeue_true
says hello -V admin get queue=q ackmode=ack_requeue_false
says "No items" -V admin get queue=q
says big -V admin -f bash list queues name
says '"messages":' -V admin -f raw_json list queues name messages
says "Message published" -V admin publish exchange=amq.default routing_key=q payload=again
says purged -V admin purge queue name=q
says "policy declared" -V admin declare policy name=p pattern=^q 'definition={"max-length": 10}' priority=2
says max-length -V admin list policies
says "operator_policy declared" -V admin declare operator_policy name=o pattern=^q 'definition={"max-length": 5}'
says max-length -V admin list operator_policies
says Exported export "$work/all"
grep -q '"x-max-length"' "$work/all"
says "policy deleted" -V admin delete policy name=p
says "operator_policy deleted" -V admin delete operator_policy name=o
says "binding deleted" -V admin delete binding source=x destination=q destination_type=queue properties_key='a.%2A'
says "queue deleted" -V admin delete queue name=q
says "exchange deleted" -V admin delete exchange name=x
fails "Not found" -V admin delete queue name=q
says "Uploaded definitions" import "$work/all"
says 'a.*' -V admin list bindings source routing_key
says max-length -V admin list policies
says "No items" list connections
fails "Not found" close connection name=nobody
says "vhost deleted" delete vhost name=admin
