package influx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ErrRefused is wrapped by errors about a request that the server understood
// and refused: a bad query, a field with another type, a limit.
var ErrRefused = errors.New("refused by InfluxDB")

// Series is one series of an answer. Values are nil, bool, string or
// json.Number, which keeps integers exact; the column "time" has unix ns.
type Series struct {
	Name    string            `json:"name"`
	Tags    map[string]string `json:"tags"` // those of GROUP BY
	Columns []string          `json:"columns"`
	Values  [][]any           `json:"values"`
}

// Column returns the values of a column, nil if there is none of that name.
func (s *Series) Column(name string) []any {
	for i, column := range s.Columns {
		if column != name {
			continue
		}
		values := make([]any, len(s.Values))
		for row := range s.Values {
			values[row] = s.Values[row][i]
		}
		return values
	}
	return nil
}

// Numbers returns the values of a column that are numbers, and the time of each.
// It leaves out nulls, such as those of fill(null).
func (s *Series) Numbers(name string) (values []float64, times []time.Time) {
	at := s.Column("time")
	for i, v := range s.Column(name) {
		n, ok := v.(json.Number)
		if !ok {
			continue
		}
		x, err := n.Float64()
		if err != nil {
			continue // InfluxDB writes no such number
		}
		values, times = append(values, x), append(times, timeOf(at, i))
	}
	return values, times
}

func timeOf(column []any, row int) time.Time {
	if row < len(column) {
		if n, ok := column[row].(json.Number); ok {
			if ns, err := n.Int64(); err == nil {
				return time.Unix(0, ns)
			}
		}
	}
	return time.Time{}
}

type answer struct {
	Results []struct {
		Series   []Series `json:"series"`
		Error    string   `json:"error"`
		Messages []struct {
			Text string `json:"text"`
		} `json:"messages"`
	} `json:"results"`
	Error string `json:"error"`
}

// Query runs InfluxQL, one statement or several, and returns the series of all
// of them. It blocks until the server has answered or ctx ends. Errors wrap
// ErrRefused when the server refuses a statement.
func (s *Server) Query(ctx context.Context, database, influxQL string) ([]Series, error) {
	form := url.Values{"db": {database}, "epoch": {"ns"}, "q": {influxQL}}
	body, err := s.post(ctx, "/query", "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", influxQL, err)
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	dec.UseNumber()
	var a answer
	if err := dec.Decode(&a); err != nil {
		return nil, fmt.Errorf("decode answer to %s: %w", influxQL, err)
	}
	return a.series(influxQL)
}

func (a *answer) series(influxQL string) ([]Series, error) {
	var all []Series
	for _, r := range a.Results {
		if r.Error != "" {
			return nil, fmt.Errorf("query %s: %w: %s", influxQL, ErrRefused, r.Error)
		}
		all = append(all, r.Series...)
	}
	return all, nil
}

// CreateDatabase creates a database with infinite retention. A database that
// exists stays as it is.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	_, err := s.Query(ctx, "", "CREATE DATABASE "+Quote(name))
	return err
}

// DropDatabase removes a database and its data.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	_, err := s.Query(ctx, "", "DROP DATABASE "+Quote(name))
	return err
}

// Quote returns an identifier with the quotes of InfluxQL.
func Quote(name string) string { return strconv.Quote(name) }

// Write sends line protocol with times in ns to the server while it reads lines.
// There should be no more than some ten thousand lines, because the server
// handles them as one batch. Errors wrap ErrRefused when the server drops some of
// them.
func (s *Server) Write(ctx context.Context, database string, lines io.Reader) error {
	return s.write(ctx, url.Values{"db": {database}}, lines)
}

func (s *Server) write(ctx context.Context, to url.Values, lines io.Reader) error {
	to.Set("precision", "ns")
	body, err := s.post(ctx, "/write?"+to.Encode(), "text/plain; charset=utf-8", lines)
	if err != nil {
		return fmt.Errorf("write to %s: %w", to.Get("db"), err)
	}
	return body.Close()
}

func (s *Server) post(ctx context.Context, path, contentType string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // the error has the part that was read
	var a answer
	if json.Unmarshal(text, &a) == nil && a.Error != "" {
		text = []byte(a.Error)
	}
	return nil, fmt.Errorf("%w: %s: %s", ErrRefused, resp.Status, strings.TrimSpace(string(text)))
}

func (s *Server) ping(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/ping", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ping influxd: %w", err)
	}
	return resp.Body.Close()
}
