package prom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// ErrRefused is wrapped by errors about a query that the server refused.
var ErrRefused = errors.New("refused by Prometheus")

// Query asks for the value of each series at a moment.
func (s *Server) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	var v model.Vector
	return v, s.ask(ctx, "query", url.Values{"query": {expr}, "time": {unixSeconds(at)}}, &v)
}

// QueryRange asks for the values of each series from one time to another.
func (s *Server) QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) (model.Matrix, error) {
	var m model.Matrix
	form := url.Values{"query": {expr}, "start": {unixSeconds(from)}, "end": {unixSeconds(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)}}
	return m, s.ask(ctx, "query_range", form, &m)
}

func unixSeconds(at time.Time) string {
	return strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)
}

// ask decodes the result of a query.
func (s *Server) ask(ctx context.Context, kind string, form url.Values, result any) error {
	expr := form.Get("query")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/api/v1/"+kind, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("query %s: %w", expr, err)
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result json.RawMessage
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("decode answer to %s: %w", expr, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("query %s: %w: %s", expr, ErrRefused, answer.Error)
	}
	if err := json.Unmarshal(answer.Data.Result, result); err != nil {
		return fmt.Errorf("decode answer to %s: %w", expr, err)
	}
	return nil
}
