module polylog/bench

go 1.26.8

require (
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
	golang.org/x/sys v0.50.0
	polylog/compat/harness v0.0.0
)

require github.com/rabbitmq/amqp091-go v1.16.0

require golang.org/x/sync v0.25.0

require (
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/molecule-man/go-brrr v1.3.1 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasthttp v1.78.0 // indirect
)

replace polylog/compat/harness => ../compat-tests/harness
