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

// mergedEvents reads the records of several directories one after the other, and stores the selected ones in a
// temporary file. Therefore memory holds at most one segment, whatever the number of hosts.
type mergedEvents struct {
	options   *eventsFlags
	warn      func(any)
	summary   *summary.Summary
	spool     *os.File
	spoolSize int64
	parts     []spoolPart
}

// spoolPart is the range of the temporary file with the records of one directory.
type spoolPart struct {
	host       string
	begin, end int64
}

// writeAll reads all directories, and writes the summary and the merged records. It returns an error if nothing could
// be read, or if a write fails.
func (m *mergedEvents) writeAll(out *bufio.Writer) error {
	var err error
	if m.spool, err = os.CreateTemp("", ".rdma-events-*"); err != nil {
		return fmt.Errorf("make temporary file: %w", err)
	}
	defer func() { _ = m.spool.Close() }() // the file has no name any more
	if err := os.Remove(m.spool.Name()); err != nil {
		return fmt.Errorf("unlink temporary file: %w", err)
	}
	var failed []error
	for _, dir := range m.options.directories {
		if err := m.readDirectory(dir); err != nil {
			failed = append(failed, withAdvice(err, dir))
		}
	}
	if len(m.parts) == 0 {
		return errors.Join(failed...)
	}
	for _, err := range failed {
		m.warn(err)
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
		_, _ = fmt.Fprintln(out) // the next write returns the same error
	}
	if err := m.printMerged(out); err != nil {
		return err
	}
	return out.Flush()
}

// readDirectory adds the records of a directory to the summary, and the selected ones to the temporary file.
func (m *mergedEvents) readDirectory(dir string) error {
	o, host := m.options, ""
	skipped := func(s recorder.Skip) {
		m.warn(fmt.Sprintf("%s: %s", dir, s))
		if !errors.Is(s.Err, recorder.ErrTail) {
			m.summary.AddUnread(host, s.String())
		}
	}
	reader, err := recorder.NewReader(dir, recorder.Filter{Device: o.device}, skipped)
	if err != nil {
		return err
	}
	if host, err = findHost(dir); err != nil {
		return err
	}
	m.summary.AddHost(host)
	w := bufio.NewWriter(m.spool)
	part := spoolPart{host: host, begin: m.spoolSize}
	counted := &countingWriter{w: w}
	encoder := json.NewEncoder(counted)
	for k, err := range timeline.Read(reader.Records(), o.json, func(err error) { m.warn(fmt.Errorf("%s: %w", dir, err)) }) {
		if err != nil {
			m.warn(fmt.Errorf("%s: %w", dir, err))
			m.summary.AddUnread(host, err.Error())
			break
		}
		k.Host = host // a directory belongs to one host, even if its records have several names
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
	m.spoolSize += counted.n
	part.end = m.spoolSize
	m.parts = append(m.parts, part)
	return nil
}

// printMerged writes the records of all directories, merged by time.
func (m *mergedEvents) printMerged(out io.Writer) error {
	var streams []iter.Seq2[timeline.StoredRecord, error]
	width := 0
	for _, part := range m.parts {
		streams = append(streams, m.readPart(part))
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

// readPart returns the records of one directory from the temporary file.
func (m *mergedEvents) readPart(part spoolPart) iter.Seq2[timeline.StoredRecord, error] {
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

// findHost returns the host whose records a directory contains. If no record names it, as in older versions, the host
// has the name of the directory or, if that is the plugin's default name, of its parent directory.
func findHost(dir string) (string, error) {
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

// findDuplicate returns a directory that is listed twice, perhaps through a link, or "".
func findDuplicate(dirs []string) string {
	var seen []os.FileInfo
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue // reading the directory reports the error
		}
		if slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
			return dir
		}
		seen = append(seen, info)
	}
	return ""
}
