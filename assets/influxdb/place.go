package influxdb

import (
	"errors"
	"fmt"
	"regexp"
)

// Place is the location of the plugin's points in an InfluxDB 1.x.
type Place struct {
	Database string
	Raw      string // the retention policy that Telegraf writes to
	Long     string // the retention policy with one point in five minutes
	Shared   bool   // others also write to the database; then Raw is not its default policy
}

// Own returns the place in a database that only the plugin's points are in.
func Own() Place { return Place{Database: "rdma", Raw: "raw", Long: "long"} }

// ErrName is wrapped by the error of In for a database name that is not allowed.
var ErrName = errors.New("no name for a database")

var name = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// In returns the place in a database that others also write to, for example
// Telegraf's own. The error wraps ErrName. InfluxDB itself would accept more names,
// in quotes.
func In(database string) (Place, error) {
	if !name.MatchString(database) {
		return Place{}, fmt.Errorf("%q is %w: want letters, digits, and _ . -", database, ErrName)
	}
	return Place{Database: database, Raw: "rdma_raw", Long: "rdma_long", Shared: true}, nil
}

// Chosen returns Own for "", and In for every other name.
func Chosen(database string) (Place, error) {
	if database == "" {
		return Own(), nil
	}
	return In(database)
}
