package exchange

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// The limits of a key file.
const (
	minKey  = 32
	maxFile = 64 << 10 // also of a file of certificates
	keyMode = 0o640
)

// readKey reads the key of all hosts. The key consists of all bytes of the file, including a final newline. A text of 32 or more
// characters, such as base64 or hex, is therefore a valid key.
func readKey(path string) ([]byte, error) {
	key, err := readSecret(path)
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		return nil, fmt.Errorf("key_file = %q: %w", path, err)
	}
	return key, nil
}

// checkKey rejects a key that is easy to guess.
func checkKey(key []byte) error {
	if len(key) < minKey {
		return fmt.Errorf("it has %d bytes: want %d random ones or more, as by head -c %d /dev/urandom", len(key), minKey, minKey)
	}
	for _, b := range key[1:] {
		if b != key[0] {
			return nil
		}
	}
	return fmt.Errorf("all its bytes are the same: want random ones, as by head -c %d /dev/urandom", minKey)
}

// readSecret reads a file. It returns an error if others may access the file or its group may change it.
func readSecret(path string) ([]byte, error) {
	return readFile(path, func(mode fs.FileMode) error {
		if mode.Perm()&^keyMode != 0 {
			return fmt.Errorf("its mode is %#o: want %#o or less, as by chmod %#o", mode.Perm(), keyMode, keyMode)
		}
		return nil
	})
}

// readFile reads a regular file whose mode check accepts. The error does not contain the file name, which the caller adds.
func readFile(path string, check func(fs.FileMode) error) ([]byte, error) {
	// Without O_NONBLOCK the open of a named pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, withoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is no regular file: want one")
	}
	if err := check(info.Mode()); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, withoutPath(err)
	case len(raw) > maxFile:
		return nil, fmt.Errorf("it has more than %d bytes: is it the right file?", maxFile)
	}
	return raw, nil
}
