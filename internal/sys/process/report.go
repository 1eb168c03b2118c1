package process

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/status"
)

// report has the facts about a process that is gone.
type report struct {
	Exe    string // the program's path
	Err    error  // why the stream ended
	Shook  bool   // the handshake succeeded
	PID    int    // 0: it never ran
	Status syscall.WaitStatus
	Hello  string   // the beginning of the first line of its stdout
	Crash  string   // the line of its stderr that names a crash
	Tail   []string // the last lines of its stderr
	Late   bool     // killed because the handshake did not come in time
	Step   string   // the last step of the start that the child has reported; "": none
}

func (r *report) complete(c *child, e *stderrLog) {
	pid, ended := c.state()
	r.PID, r.Hello = pid, c.tap.line()
	if ended != nil {
		r.Status, _ = ended.Sys().(syscall.WaitStatus)
	}
	r.Crash, r.Tail = e.report()
}

// couldNotClose reports whether the process could not close the resource that it held.
// Its own message of that may be lost, since it exits at once; Busy has the call in any
// case.
func (r *report) couldNotClose() bool {
	return r.Shook && r.Status.Exited() && r.Status.ExitStatus() == exitStuck
}

// faulted reports whether a signal of the processor, such as SIGSEGV, ended the process.
// Go's runtime names it on stderr.
func (r *report) faulted() bool { return strings.HasPrefix(r.Crash, "SIG") }

// cause is why the supervisor itself ended a process.
type cause int

const (
	causeNone  cause = iota
	causeAsked       // supervision ends
	causeHung        // no message for too long
	causeStuck       // one call lasts too long
)

// explain returns why a process ended, and when to start another one. by is why the
// supervisor ended it, and in is the last call that it was in.
func explain(s *Spec, r *report, by cause, in Call) (status.End, Retry) {
	switch {
	case by == causeAsked:
		return status.End{Reason: status.ReasonOK}, Soon
	case by == causeHung:
		return s.endf(status.ReasonStuck, "stopped responding%s and was killed", during(in)), Soon
	case by == causeStuck:
		return s.endf(status.ReasonStuck, "was stuck%s and was killed", during(in)), Soon
	case r.Late && r.Step != "":
		return s.endf(status.ReasonStuck, "was slow to start and was killed after %v: %s%s; see whether the host is overloaded",
			s.Timing.Start+s.Timing.Load, r.Step, lastLine(r)), Soon
	case r.Late:
		return s.endf(status.ReasonStuck, "(%s) did not shake hands in time and was killed%s; check %s",
			r.Exe, lastLine(r), s.Option), Soon
	case r.PID == 0:
		return unstarted(s, r.Err), Slowly
	case r.refusedThread():
		return s.endf(status.ReasonLimit, "died because it may not start another thread; %s", raiseProcesses), Slowly
	case r.couldNotClose():
		return s.endf(status.ReasonStuck, "could not close the %s: stuck%s", s.Resource, during(in)), Soon
	case !r.Shook:
		return explainStart(s, r)
	case r.Status.Exited() && r.Status.ExitStatus() == 0:
		return s.endf(status.ReasonCrashed, "left: %v", r.Err), Soon
	}
	return s.endf(status.ReasonCrashed, "%s%s", death(r), during(in)), Soon
}

// endf returns the end of a process for a reason, with a message about the process.
func (s *Spec) endf(why status.Reason, format string, args ...any) status.End {
	return status.End{Reason: why, Message: s.Subject + " " + fmt.Sprintf(format, args...)}
}

// held returns the end of a process that was given up because the kernel holds it.
func held(s *Spec, pid int, in Call) status.End {
	what := "is not executed yet"
	if pid != 0 {
		what = fmt.Sprintf("(process %d) cannot be killed", pid)
	}
	return status.End{Reason: status.ReasonStuck, Message: fmt.Sprintf("%s %s: the kernel holds it%s", s.Subject, what, during(in))}
}

// explainStart is explain for a process that did not complete the handshake.
func explainStart(s *Spec, r *report) (status.End, Retry) {
	core, rest, _ := strings.Cut(r.Hello, "|")
	version, _, isHello := strings.Cut(rest, "|")
	switch {
	case r.Hello != "" && (!isHello || core != "1"):
		return s.endf(status.ReasonCrashed, "cannot be started: %s is not an %s: it printed %q; check %s",
			r.Exe, s.Name, r.Hello, s.Option), Slowly
	case isHello && version != fmt.Sprint(s.Handshake.Version):
		return s.endf(status.ReasonCrashed, "cannot be started: %s is of another release (contract %s, wanted %d): "+
			"install rdma-events and %s of the same", r.Exe, version, s.Handshake.Version, s.Name), Slowly
	case isHello:
		return s.endf(status.ReasonCrashed, "%s after the handshake", death(r)), Soon
	case r.Status.Exited() && r.Status.ExitStatus() == exitSetup:
		return s.endf(status.ReasonCrashed, "(%s) cannot work%s", r.Exe, lastLine(r)), Slowly
	case r.Status.Exited() && r.Crash == "":
		return s.endf(status.ReasonCrashed, "cannot be started: %s is not an %s of this release: "+
			"it %s before the handshake%s; check %s", r.Exe, s.Name, death(r), lastLine(r), s.Option), Slowly
	case r.Crash == "":
		return s.endf(status.ReasonCrashed, "%s before the handshake%s", death(r), lastLine(r)), Soon
	}
	return s.endf(status.ReasonCrashed, "%s before the handshake", death(r)), Soon
}

// unstarted returns why a process could not be started.
func unstarted(s *Spec, err error) status.End {
	e := status.End{Reason: status.ReasonCrashed, Message: fmt.Sprintf("%s cannot be started: %v", s.Subject, err)}
	switch {
	case errors.Is(err, errNoDir):
		e.Message += fmt.Sprintf("; let user %d make directories there", os.Geteuid())
	case isAny(err, unix.EMFILE, unix.ENFILE):
		e.Reason = status.ReasonLimit
		e.Message += "; raise the limit of open files (systemd: LimitNOFILE)"
	case isAny(err, unix.EAGAIN, unix.ENOMEM):
		e.Reason = status.ReasonLimit
		e.Message += "; " + raiseProcesses
	case errors.As(err, new(*os.PathError)): // not an error of the program, which is executed by its descriptor
	case isAny(err, unix.ENOEXEC, unix.ENOENT, unix.EACCES):
		e.Message += "; check " + s.Option
	}
	return e
}

// raiseProcesses is the advice for EAGAIN and ENOMEM of fork(2) and pthread_create(3).
const raiseProcesses = "raise the limits of processes and memory (systemd: TasksMax, LimitNPROC, MemoryMax)"

// refusedThread reports whether the Go runtime ended the process because it could not
// start a thread.
func (r *report) refusedThread() bool {
	return r.Crash != "" && slices.ContainsFunc(r.Tail, func(line string) bool {
		return strings.HasPrefix(line, "runtime/cgo: pthread_create failed: ") ||
			strings.HasPrefix(line, "runtime: failed to create new OS thread ")
	})
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// death returns how the process ended. Go's runtime catches a signal in C code and exits
// with status 2, so the signal is named on stderr.
func death(r *report) string {
	name, text, _ := strings.Cut(r.Crash, ": ")
	switch {
	case r.faulted():
		return "died of " + name
	case r.Status.Signaled():
		return "died of " + unix.SignalName(r.Status.Signal())
	case r.Crash != "":
		return fmt.Sprintf("died of a %s: %s", name, text)
	}
	return fmt.Sprintf("ended with status %d", r.Status.ExitStatus())
}

// traceLimit is the most bytes of a crash's trace in the log. The thread that crashed
// comes first and takes about as much.
const traceLimit = 2 << 10

// addresses matches the addresses in a line of a traceback. They have no use once the
// process is gone.
var addresses = regexp.MustCompile(` fp=0x[0-9a-f]+ sp=0x[0-9a-f]+ pc=0x[0-9a-f]+$`)

// trace returns the beginning of the crash's traceback as one line; "" when there was no
// crash of which the child could print a report.
func (r *report) trace() string {
	at := slices.Index(r.Tail, r.Crash)
	if r.Crash == "" || at < 0 {
		return ""
	}
	var b strings.Builder
	for _, line := range r.Tail[at:] {
		line = addresses.ReplaceAllString(strings.TrimSpace(line), "")
		if b.Len()+len(line) > traceLimit {
			b.WriteString(" | ...")
			break
		}
		if b.Len() > 0 {
			b.WriteString(" | ")
		}
		b.WriteString(line)
	}
	return b.String()
}

func lastLine(r *report) string {
	if len(r.Tail) == 0 {
		return ""
	}
	return fmt.Sprintf(": %q", r.Tail[len(r.Tail)-1])
}

func during(c Call) string {
	if c.Name == "" {
		return ""
	}
	return " in " + c.Name
}
