package proto

import "runtime/debug"

// Hello is the operation of that name, of the driver for a module.
func Hello(module string) func(Args) (Args, error) {
	return func(Args) (Args, error) { return Args{"version": version(module)}, nil }
}

// version is the version of a module that is built into this program.
func version(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return "unknown"
}
