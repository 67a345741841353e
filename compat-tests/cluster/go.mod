module polylog/compat/cluster

go 1.26.8

require (
	github.com/mochi-mqtt/server/v2 v2.7.9
	github.com/twmb/franz-go v1.22.3
	github.com/twmb/franz-go/pkg/kadm v1.20.0
	polylog/compat/harness v0.0.0
	polylog/compat/http v0.0.0
	polylog/compat/mqtt v0.0.0
)

require (
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // indirect
)

replace (
	polylog/compat/harness => ../harness
	polylog/compat/http => ../http
	polylog/compat/mqtt => ../mqtt
)
