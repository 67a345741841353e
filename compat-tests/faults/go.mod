module polylog/compat/faults

go 1.26.8

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/twmb/franz-go v1.22.3
	github.com/twmb/franz-go/pkg/kadm v1.20.0
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
	golang.org/x/sys v0.50.0
	polylog/compat/amqp v0.0.0
	polylog/compat/harness v0.0.0
	polylog/compat/mqtt v0.0.0
)

require (
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mochi-mqtt/server/v2 v2.7.9 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/rabbitmq/amqp091-go v1.16.0 // indirect
)

replace (
	polylog/compat/amqp => ../amqp
	polylog/compat/harness => ../harness
	polylog/compat/mqtt => ../mqtt
)
