module polylog/compat/http

go 1.26.8

require polylog/compat/harness v0.0.0

replace polylog/compat/harness => ../harness
