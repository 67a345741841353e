module polylog/bench

go 1.26.8

require polylog/compat/harness v0.0.0

require (
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace polylog/compat/harness => ../compat-tests/harness
