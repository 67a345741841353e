package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// maxSecretFile bounds a file with a secret, in bytes.
const maxSecretFile = 4 << 10

// readSecrets reads secrets from files: arguments of a command can be seen by other users of the machine.
// Whitespace around a secret is not of it.
func readSecrets(files []string) (all []string, err error) {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read the secret: %w", err)
		}
		b, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
		_ = f.Close() // it was only read
		b = bytes.TrimSpace(b)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the secret: %w", err)
		case len(b) == 0:
			return nil, fmt.Errorf("read the secret: %s is empty", name)
		case len(b) > maxSecretFile:
			return nil, fmt.Errorf("read the secret: %s has more than %d bytes", name, maxSecretFile)
		}
		all = append(all, string(b))
	}
	return all, nil
}
