package influx

import (
	"bytes"
	"context"
	"net/url"
)

// batch is the number of bytes of lines that are written together. InfluxDB
// advises 5,000 to 10,000 points; a point of the plugin has some 450 bytes.
const batch = 2 << 20

// Writer writes lines to a database in batches. It is for one goroutine.
type Writer struct {
	ctx    context.Context
	server *Server
	to     url.Values
	lines  bytes.Buffer
}

// NewWriter returns a Writer. Its writes fail once ctx has ended.
func (s *Server) NewWriter(ctx context.Context, database string) *Writer {
	return &Writer{ctx: ctx, server: s, to: url.Values{"db": {database}}}
}

// In makes the Writer write to a retention policy other than the default, and
// returns the Writer.
func (w *Writer) In(policy string) *Writer {
	w.to.Set("rp", policy)
	return w
}

// Write adds whole lines to a batch. When the batch is full, Write blocks until it
// is written and returns the error of Server.Write.
func (w *Writer) Write(lines []byte) (int, error) {
	w.lines.Write(lines)
	if w.lines.Len() < batch {
		return len(lines), nil
	}
	return len(lines), w.Flush()
}

// Flush writes the lines of the last batch.
func (w *Writer) Flush() error {
	if w.lines.Len() == 0 {
		return nil
	}
	defer w.lines.Reset()
	return w.server.write(w.ctx, w.to, &w.lines)
}
