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
	leastKey = 32
	mostFile = 64 << 10 // also of a file of certificates
	keyMode  = 0o640
)

// readKey reads the key of all hosts. The key is the bytes of the file, each of them: also a final newline, so that a text of
// 32 characters or more, as base64 or hex, is a key like any other.
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

// checkKey refuses a key that can be guessed.
func checkKey(key []byte) error {
	if len(key) < leastKey {
		return fmt.Errorf("it has %d bytes: want %d random ones or more, as by head -c %d /dev/urandom", len(key), leastKey, leastKey)
	}
	for _, b := range key[1:] {
		if b != key[0] {
			return nil
		}
	}
	return fmt.Errorf("all its bytes are the same: want random ones, as by head -c %d /dev/urandom", leastKey)
}

// readSecret reads a file that others may not read, nor its group change.
func readSecret(path string) ([]byte, error) {
	return readFile(path, func(mode fs.FileMode) error {
		if mode.Perm()&^keyMode != 0 {
			return fmt.Errorf("its mode is %#o: want %#o or less, as by chmod %#o", mode.Perm(), keyMode, keyMode)
		}
		return nil
	})
}

// readFile reads a regular file of a mode that check accepts. Its error does not name the file, which the option does.
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
	raw, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	switch {
	case err != nil:
		return nil, withoutPath(err)
	case len(raw) > mostFile:
		return nil, fmt.Errorf("it has more than %d bytes: is it the right file?", mostFile)
	}
	return raw, nil
}
