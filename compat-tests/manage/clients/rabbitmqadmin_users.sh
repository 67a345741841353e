#!/usr/bin/env bash
# rabbitmqadmin_users.sh SCRIPT HOST:PORT: users and permissions with rabbitmqadmin, at a broker without users. The
# first one is an administrator, and guest is nobody from then on.
. "$(dirname "$0")/says.sh"

fails "the first user has to be an administrator with a password" declare user name=shop password=secret tags=
says "user declared" declare user name=admin password=first tags=administrator
fails "Access refused" list users
login=(-u admin -p first)
says "permission declared" declare permission vhost=/ user=admin configure='.*' write='.*' read='.*'
says "user declared" declare user name=shop password=secret tags=management
says "user declared" declare user name=other password=secret tags=
fails "RabbitMQ's hash" declare user name=hashed password_hash=kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR tags=
says administrator list users name tags
says "permission declared" declare permission vhost=/ user=shop configure='^s' write='^s' read='^s'
says '^s' list permissions
fails "vhost_or_user_not_found" declare permission vhost=/ user=nobody configure= write= read=
login=(-u shop -p secret)
says "queue declared" declare queue name=s durable=true
fails "Access refused" declare queue name=x
fails "Access refused" publish exchange=amq.default routing_key=s payload=x
fails "Access refused" list users
fails "Access refused" declare user name=shop password=secret tags=administrator
login=(-u other -p secret)
fails "Access refused" list queues
login=(-u admin -p first)
says Exported export "$work/users"
if grep -q secret "$work/users"; then echo "a password is exported" >&2; exit 1; fi
says "permission deleted" delete permission vhost=/ user=shop
says "user deleted" delete user name=shop
fails "Not found" delete user name=shop
says "Uploaded definitions" import "$work/users"
fails "the last administrator" delete user name=admin
login=(-u shop -p secret)
says s list queues name
