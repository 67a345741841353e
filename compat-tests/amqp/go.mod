module polylog/compat/amqp

go 1.26.8

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	polylog/compat/harness v0.0.0
)

replace polylog/compat/harness => ../harness
