package ebpf

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// attachAll attaches the programs that fit a kernel, and returns what is attached and the functions that are missing. A function
// that the kernel has may still refuse a probe, as one that is in its list of functions not to be probed: that switches off the
// part that needs it, like a function that the kernel lacks. Any other error is returned with what was attached until then.
func attachAll(f fitted, attach func(program string) (io.Closer, error)) (links []io.Closer, missing []string, err error) {
	attached, functions, refused := map[string]io.Closer{}, maps.Clone(f.functions), map[string]error{}
	var first error
	for _, program := range f.programs {
		l, err := attach(program)
		switch {
		case err == nil:
			attached[program] = l
			continue
		case isOfProcess(err):
			return slices.Collect(maps.Values(attached)), nil, fmt.Errorf("attach to %s: %w", functions[program], err)
		case functions[program] == "":
			functions[program] = program // the iterator, which needs no function
		}
		refused[functions[program]] = err
		if first == nil {
			first = fmt.Errorf("attach to %s: %w", functions[program], err)
		}
	}
	c, err := choose(functions, func(function string) bool { return refused[function] == nil && f.has(function) })
	if err != nil && first != nil {
		err = fmt.Errorf("%w: %s", err, firstLine(first))
	}
	var off []io.Closer
	for program, l := range attached {
		if err == nil && slices.Contains(c.programs, program) {
			links = append(links, l)
		} else {
			off = append(off, l)
		}
	}
	return links, c.missing, errors.Join(err, closeTogether(off))
}

// isOfProcess reports whether an error says that this process may attach nothing, or nothing more.
func isOfProcess(err error) bool {
	for _, errno := range []unix.Errno{unix.EPERM, unix.EACCES, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// closeTogether closes hooks at the same time: the kernel waits for all processors to leave each of them.
func closeTogether(hooks []io.Closer) error {
	errs := make([]error, len(hooks))
	var closing sync.WaitGroup
	for i, hook := range hooks {
		closing.Go(func() { errs[i] = hook.Close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}
