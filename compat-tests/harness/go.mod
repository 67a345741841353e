module polylog/compat/harness

go 1.26.8
