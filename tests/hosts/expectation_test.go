package hosts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
)

func TestAnExpectationHoldsOrNot(t *testing.T) {
	s := &seen{
		output: map[string]string{"doctor": "OK    ports   mlx5_0 port 1: ACTIVE\nSKIP  addresses   rdma_rxe: Sip addr\n3 OK, 0 WARN, 0 FAIL, 1 skipped\n"},
		exit:   map[string]int{"doctor": 1},
		points: []rig.Point{
			{Measurement: "rdma_port", Tags: map[string]string{"device": "mlx5_0"}, Fields: map[string]any{"up": int64(1), "rate_gbps": 103.125}},
		},
	}
	for line, want := range map[string]bool{
		"doctor exit 1":                              true,
		"doctor exit 0":                              false,
		"doctor has ok ports mlx5_0":                 true,
		"doctor has ok ... active":                   true,
		"doctor has active ... ok":                   false,
		"doctor has active ... skipped":              false,
		"doctor not modprobe":                        true,
		"doctor not ip addresses":                    true,
		"doctor not addr":                            false,
		"doctor not rxe":                             false,
		"doctor has skip ... addr":                   true,
		"doctor has skip ... ip":                     false,
		"doctor not , 0 FAIL,":                       false,
		"points has rdma_port device=mlx5_0 up=1":    true,
		"points has rdma_port rate_gbps=103.125":     true,
		"points has rdma_port device=mlx5_0 up=0":    false,
		"points has rdma_port phys=1":                false,
		"points has rdma_device device=mlx5_0":       false,
		"points only rdma_port device=mlx5_0":        true,
		"points only rdma_port device=mlx5_0,mlx5_1": false,
		"points only rdma_port device=mlx5_1":        false,
		"points never rdma_port device=mlx5_1":       true,
		"points never rdma_port device=mlx5_0":       false,
		"points never rdma_port device=mlx5_0 up=":   true,
	} {
		e, err := parseExpectation(line)
		require.NoError(t, err)
		require.Equal(t, want, e.holds(s), line)
	}
}

func TestWhatIsNoExpectationIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"report has x\n":                       `expectation "report has x" is not known`,
		"points only rdma_port\n":              `needs a measurement and one tag`,
		"points exit 0\n":                      `expectation "points exit 0" is not known`,
		"doctor has\n":                         `expectation "doctor has" is not known`,
		"doctor has x\ndoctor has y\n  why\n":  `"doctor has x" has no reason`,
		"# of the doctor\n\ndoctor has ok\n\n": `"doctor has ok" has no reason`,
	} {
		path := filepath.Join(t.TempDir(), "differences.txt")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		_, err := readExpectations(path, true)
		require.ErrorContains(t, err, want)
	}
}
