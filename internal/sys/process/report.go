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

// report has the facts about a process that has ended.
type report struct {
	Exe    string // the program's path
	Err    error  // why the stream ended
	Shook  bool   // the handshake succeeded
	PID    int    // 0: the process never ran
	Status syscall.WaitStatus
	Hello  string   // the start of the first line of its stdout
	Crash  string   // the line of its stderr that names a crash
	Tail   []string // the last lines of its stderr
	Late   bool     // it was killed because the handshake did not come in time
	Step   string   // the last step of its start that it reported; "": none
}

// complete adds the facts that are known when the process has ended.
func (r *report) complete(c *child, e *stderrLog) {
	pid, ended := c.state()
	r.PID, r.Hello = pid, c.tap.line()
	if ended != nil {
		r.Status, _ = ended.Sys().(syscall.WaitStatus)
	}
	r.Crash, r.Tail = e.report()
}

// couldNotClose reports whether the process exited because it could not close its
// resource. Its message about that may be lost, since it exits immediately, but Busy still
// returns the call.
func (r *report) couldNotClose() bool {
	return r.Shook && r.Status.Exited() && r.Status.ExitStatus() == exitStuck
}

// faulted reports whether a processor fault, such as SIGSEGV, ended the process. Go's
// runtime names the signal on stderr.
func (r *report) faulted() bool { return strings.HasPrefix(r.Crash, "SIG") }

// cause tells why the supervisor itself ended a process.
type cause int

const (
	causeNone     cause = iota
	causeShutdown       // supervision ends
	causeHung           // no sign of life for too long
	causeStarved        // no sign of life for too long, but the process is runnable
	causeStuck          // one call lasts too long
)

// explainEnd returns why a process ended, and when to start the next one. by tells why the
// supervisor ended it, if it did. in is the last call of the process.
func explainEnd(s *Spec, r *report, by cause, in Call) (status.End, Retry) {
	switch {
	case by == causeShutdown:
		return status.End{Reason: status.ReasonOK}, Soon
	case by == causeHung:
		return s.endf(status.ReasonStuck, "stopped responding%s and was killed", duringCall(in)), Soon
	case by == causeStarved:
		return s.endf(status.ReasonStuck, "stopped responding%s although it was runnable, and was killed; see whether the host is overloaded",
			duringCall(in)), Soon
	case by == causeStuck:
		return s.endf(status.ReasonStuck, "was stuck%s and was killed", duringCall(in)), Soon
	case r.Late && r.Step != "":
		return s.endf(status.ReasonStuck, "was slow to start and was killed after %v: %s%s; see whether the host is overloaded",
			s.Timing.Start+s.Timing.Load, r.Step, lastLine(r)), Soon
	case r.Late:
		return s.endf(status.ReasonStuck, "(%s) did not complete the handshake in time and was killed%s; see whether the host is overloaded, and check %s",
			r.Exe, lastLine(r), s.Option), Soon
	case r.PID == 0:
		return startFailure(s, r.Err), Slowly
	case r.refusedThread():
		return s.endf(status.ReasonLimit, "ended because it could not start another thread; %s", raiseProcesses), Slowly
	case r.couldNotClose():
		return s.endf(status.ReasonStuck, "could not close the %s: stuck%s", s.Resource, duringCall(in)), Soon
	case !r.Shook:
		return explainStart(s, r)
	case r.Status.Exited() && r.Status.ExitStatus() == 0:
		return s.endf(status.ReasonCrashed, "exited by itself: %v", r.Err), Soon
	}
	return s.endf(status.ReasonCrashed, "%s%s", describeDeath(r), duringCall(in)), Soon
}

// endf returns an End with a reason and a message about the process.
func (s *Spec) endf(why status.Reason, format string, args ...any) status.End {
	return status.End{Reason: why, Message: s.Subject + " " + fmt.Sprintf(format, args...)}
}

// explainLeft returns the End of a process that has not ended in time after it was killed: the kernel holds it or, if it is
// runnable, it has had no CPU time to exit.
func explainLeft(s *Spec, pid int, runnable bool, in Call) status.End {
	switch {
	case pid == 0:
		return s.endf(status.ReasonStuck, "has not started yet: the kernel holds it%s", duringCall(in))
	case runnable:
		return s.endf(status.ReasonStuck, "(process %d) was killed, but has had no CPU time to exit%s; see whether the host is overloaded",
			pid, duringCall(in))
	}
	return s.endf(status.ReasonStuck, "(process %d) cannot be killed: the kernel holds it%s", pid, duringCall(in))
}

// explainStart returns why a process ended before it completed the handshake, and when to start the next one.
func explainStart(s *Spec, r *report) (status.End, Retry) {
	core, rest, _ := strings.Cut(r.Hello, "|")
	version, _, isHello := strings.Cut(rest, "|")
	switch {
	case r.Hello != "" && (!isHello || core != "1"):
		return s.endf(status.ReasonCrashed, "cannot be started: %s is not an %s: it printed %q; check %s",
			r.Exe, s.Name, r.Hello, s.Option), Slowly
	case isHello && version != fmt.Sprint(s.Handshake.Version):
		return s.endf(status.ReasonCrashed, "cannot be started: %s is from another release (contract %s instead of %d): "+
			"install rdma-events and %s of the same release", r.Exe, version, s.Handshake.Version, s.Name), Slowly
	case isHello:
		return s.endf(status.ReasonCrashed, "%s after the handshake", describeDeath(r)), Soon
	case r.Status.Exited() && r.Status.ExitStatus() == exitSetup:
		return s.endf(status.ReasonCrashed, "(%s) could not set itself up%s", r.Exe, lastLine(r)), Slowly
	case r.Status.Exited() && r.Crash == "":
		return s.endf(status.ReasonCrashed, "cannot be started: %s is not an %s of this release: "+
			"it %s before the handshake%s; check %s", r.Exe, s.Name, describeDeath(r), lastLine(r), s.Option), Slowly
	case r.Crash == "":
		return s.endf(status.ReasonCrashed, "%s before the handshake%s", describeDeath(r), lastLine(r)), Soon
	}
	return s.endf(status.ReasonCrashed, "%s before the handshake", describeDeath(r)), Soon
}

// startFailure returns the End of a process that could not be started.
func startFailure(s *Spec, err error) status.End {
	e := status.End{Reason: status.ReasonCrashed, Message: fmt.Sprintf("%s cannot be started: %v", s.Subject, err)}
	switch {
	case errors.Is(err, errNoDir):
		e.Message += fmt.Sprintf("; allow user %d to create directories there", os.Geteuid())
	case isAny(err, unix.EMFILE, unix.ENFILE):
		e.Reason = status.ReasonLimit
		e.Message += "; raise the limit of open files (systemd: LimitNOFILE)"
	case isAny(err, unix.EAGAIN, unix.ENOMEM):
		e.Reason = status.ReasonLimit
		e.Message += "; " + raiseProcesses
	case errors.As(err, new(*os.PathError)): // not an error of the program file, which is executed by its descriptor
	case isAny(err, unix.ENOEXEC, unix.ENOENT, unix.EACCES):
		e.Message += "; check " + s.Option
	}
	return e
}

// raiseProcesses is the advice for EAGAIN and ENOMEM of fork(2) and pthread_create(3).
const raiseProcesses = "raise the limits of processes and memory (systemd: TasksMax, LimitNPROC, MemoryMax)"

// refusedThread reports whether the Go runtime ended the process because it could not start
// a thread.
func (r *report) refusedThread() bool {
	return r.Crash != "" && slices.ContainsFunc(r.Tail, func(line string) bool {
		return strings.HasPrefix(line, "runtime/cgo: pthread_create failed: ") ||
			strings.HasPrefix(line, "runtime: failed to create new OS thread ")
	})
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// describeDeath returns in words how the process ended. Go's runtime catches a signal in C
// code and exits with status 2, but names the signal on stderr.
func describeDeath(r *report) string {
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

// traceLimit is the maximum number of bytes of a traceback in the log. This suffices for the thread that crashed, which comes first.
const traceLimit = 2 << 10

// addresses matches the addresses in a line of a traceback, which are useless once the
// process has ended.
var addresses = regexp.MustCompile(` fp=0x[0-9a-f]+ sp=0x[0-9a-f]+ pc=0x[0-9a-f]+$`)

// trace returns the start of the traceback of a crash as one line, or "" if the child
// printed no traceback.
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

func duringCall(c Call) string {
	if c.Name == "" {
		return ""
	}
	return " in " + c.Name
}
