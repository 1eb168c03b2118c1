package influxdb

import (
	"errors"
	"fmt"
	"regexp"
)

// Place says where in an InfluxDB 1.x the plugin's points are.
type Place struct {
	Database string
	Raw      string // the retention policy that Telegraf writes to
	Long     string // the one that has a point in five minutes
	Shared   bool   // others write to the database; Raw is not its default then
}

// Own is a database of the plugin's own.
func Own() Place { return Place{Database: "rdma", Raw: "raw", Long: "long"} }

// ErrName is wrapped by the error about a name that a database cannot have here.
var ErrName = errors.New("no name for a database")

var name = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// In is a database that others write to, as Telegraf's own. The error wraps
// ErrName; InfluxDB itself would take more names, in quotes.
func In(database string) (Place, error) {
	if !name.MatchString(database) {
		return Place{}, fmt.Errorf("%q is %w: want letters, digits, and _ . -", database, ErrName)
	}
	return Place{Database: database, Raw: "rdma_raw", Long: "rdma_long", Shared: true}, nil
}

// Chosen is Own for "", and In for every other name.
func Chosen(database string) (Place, error) {
	if database == "" {
		return Own(), nil
	}
	return In(database)
}
