package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"rdma_events/internal/agent/inspect/report"
	"rdma_events/internal/record/recorder"
	"rdma_events/internal/record/summary"
	"rdma_events/internal/record/timeline"
)

// mergedEvents reads the records of several directories, one after the other, and keeps what will be written in a temporary file.
// So memory has one segment at a time, however many hosts there are.
type mergedEvents struct {
	options *eventsFlags
	bad     func(any)
	summary *summary.Summary
	spool   *os.File
	size    int64
	parts   []spoolPart
}

// spoolPart is what a directory has in the spool.
type spoolPart struct {
	host       string
	begin, end int64
}

// write reads all directories and writes the summary and the merged records. The error says that nothing could be read or written.
func (m *mergedEvents) write(out *bufio.Writer) error {
	var err error
	if m.spool, err = os.CreateTemp("", ".rdma-events-*"); err != nil {
		return fmt.Errorf("make temporary file: %w", err)
	}
	defer func() { _ = m.spool.Close() }() // nothing of it lasts
	if err := os.Remove(m.spool.Name()); err != nil {
		return fmt.Errorf("unlink temporary file: %w", err)
	}
	var failed []error
	for _, dir := range m.options.directories {
		if err := m.read(dir); err != nil {
			failed = append(failed, advised(err, dir))
		}
	}
	if len(m.parts) == 0 {
		return errors.Join(failed...)
	}
	for _, err := range failed {
		m.bad(err)
	}
	o := m.options
	if o.summarize {
		for _, line := range m.summary.Lines() {
			if _, err := fmt.Fprintln(out, line); err != nil {
				return fmt.Errorf("write summary: %w", err)
			}
		}
		if o.summary == summaryOnly {
			return out.Flush()
		}
		_, _ = fmt.Fprintln(out) // an error comes again with the next write
	}
	if err := m.print(out); err != nil {
		return err
	}
	return out.Flush()
}

// read adds the records of a directory to the summary, and those of the window to the spool.
func (m *mergedEvents) read(dir string) error {
	o, host := m.options, ""
	skipped := func(s recorder.Skip) {
		m.bad(fmt.Sprintf("%s: %s", dir, s))
		if !errors.Is(s.Err, recorder.ErrTail) {
			m.summary.AddUnread(host, s.String())
		}
	}
	reader, err := recorder.NewReader(dir, recorder.Filter{Device: o.device}, skipped)
	if err != nil {
		return err
	}
	if host, err = hostOf(dir); err != nil {
		return err
	}
	m.summary.AddHost(host)
	w := bufio.NewWriter(m.spool)
	part := spoolPart{host: host, begin: m.size}
	counted := &countingWriter{w: w}
	encoder := json.NewEncoder(counted)
	for k, err := range timeline.Read(reader.Records(), o.json, func(err error) { m.bad(fmt.Errorf("%s: %w", dir, err)) }) {
		if err != nil {
			m.bad(fmt.Errorf("%s: %w", dir, err))
			m.summary.AddUnread(host, err.Error())
			break
		}
		k.Host = host // a directory is of one host, whatever names its records have
		m.summary.Add(&k)
		if !o.selects(&k) {
			continue
		}
		if err := encoder.Encode(&k); err != nil {
			return fmt.Errorf("write temporary file: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write temporary file: %w", err)
	}
	m.size += counted.n
	part.end = m.size
	m.parts = append(m.parts, part)
	return nil
}

// print writes the records of all directories, merged by time.
func (m *mergedEvents) print(out io.Writer) error {
	var streams []iter.Seq2[timeline.StoredRecord, error]
	width := 0
	for _, part := range m.parts {
		streams = append(streams, m.stream(part))
		width = max(width, len(part.host))
	}
	p := timeline.Printer{Out: out, JSON: m.options.json, Ordered: true}
	if len(m.parts) > 1 {
		p.Hosts = width
	}
	for k, err := range timeline.Merge(streams) {
		if err != nil {
			return err
		}
		if err := p.Add(k); err != nil {
			return err
		}
	}
	return p.Flush()
}

func (m *mergedEvents) stream(part spoolPart) iter.Seq2[timeline.StoredRecord, error] {
	return func(yield func(timeline.StoredRecord, error) bool) {
		in := json.NewDecoder(io.NewSectionReader(m.spool, part.begin, part.end-part.begin))
		for {
			var k timeline.StoredRecord
			err := in.Decode(&k)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				err = fmt.Errorf("read temporary file: %w", err)
			}
			if !yield(k, err) || err != nil {
				return
			}
		}
	}
}

// countingWriter counts the bytes that it passes on.
type countingWriter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// hostOf returns the host whose records a directory has. Where no record names it, as those of older versions, the directory does,
// or the one above a directory with the plugin's own name.
func hostOf(dir string) (string, error) {
	reader, err := recorder.NewReader(dir, recorder.Filter{}, nil)
	if err != nil {
		return "", err
	}
	if name := timeline.HostOf(reader.Records()); name != "" {
		return report.OneLine(name), nil
	}
	if dir == defaultRecords {
		return hostName(), nil
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("name the host of %s: %w", dir, err)
	}
	if filepath.Base(path) == filepath.Base(defaultRecords) {
		path = filepath.Dir(path)
	}
	return report.OneLine(filepath.Base(path)), nil
}

// sameDirectory returns a directory that is named twice, also by a link; "" if there is none.
func sameDirectory(dirs []string) string {
	var seen []os.FileInfo
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue // reading it says why
		}
		if slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
			return dir
		}
		seen = append(seen, info)
	}
	return ""
}
