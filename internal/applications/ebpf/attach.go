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

// attachAll attaches the programs that a kernel supports. It returns the attachments and the missing functions. An existing function may
// still refuse a probe, for example because the kernel's blacklist contains it. That switches off the features that need it, just like a
// missing function. attachAll returns any other error together with the attachments made so far.
func attachAll(f fitted, attach func(program string) (io.Closer, error)) (links []io.Closer, missing []string, err error) {
	attached, functions, refused := map[string]io.Closer{}, maps.Clone(f.functions), map[string]error{}
	var first error
	for _, program := range f.programs {
		l, err := attach(program)
		switch {
		case err == nil:
			attached[program] = l
			continue
		case isProcessLimit(err):
			return slices.Collect(maps.Values(attached)), nil, fmt.Errorf("attach to %s: %w", functions[program], err)
		case functions[program] == "":
			functions[program] = program // the iterator, which is not attached to a function
		}
		refused[functions[program]] = err
		if first == nil {
			first = fmt.Errorf("attach to %s: %w", functions[program], err)
		}
	}
	c, err := choosePrograms(functions, func(function string) bool { return refused[function] == nil && f.has(function) })
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

// isProcessLimit reports whether an error means that this process cannot attach anything, or anything more.
func isProcessLimit(err error) bool {
	for _, errno := range []unix.Errno{unix.EPERM, unix.EACCES, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// closeTogether closes hooks concurrently, because for each of them the kernel waits until all processors have left it.
func closeTogether(hooks []io.Closer) error {
	errs := make([]error, len(hooks))
	var closing sync.WaitGroup
	for i, hook := range hooks {
		closing.Go(func() { errs[i] = hook.Close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}
