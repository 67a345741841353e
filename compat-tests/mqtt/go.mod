module polylog/compat/mqtt

go 1.26.8

require (
	github.com/mochi-mqtt/server/v2 v2.7.9
	polylog/compat/harness v0.0.0
)

replace polylog/compat/harness => ../harness
