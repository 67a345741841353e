module polylog/bench

go 1.26.8

require (
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
	golang.org/x/sys v0.50.0
	polylog/compat/harness v0.0.0
)

require github.com/rabbitmq/amqp091-go v1.16.0

require golang.org/x/sync v0.25.0

replace polylog/compat/harness => ../compat-tests/harness
