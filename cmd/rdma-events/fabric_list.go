package main

import (
	"fmt"
	"io"

	"rdma_events/internal/agent"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/record/timeline"
)

// hostJSON is a host in the output of fabric -list -json.
type hostJSON struct {
	Host    string         `json:"host"`
	Group   string         `json:"group"`
	Scope   pinglist.Scope `json:"scope"`
	Address string         `json:"address"`
}

// writeList writes which hosts this host pings and which ping it.
func (o *fabricFlags) writeList(stdout io.Writer, c *agent.FabricConfig) (code int, err error) {
	l, err := c.ReadPinglist()
	if err != nil {
		return exitFailed, err
	}
	if o.json {
		err = writeJSON(stdout, struct {
			Schema   int        `json:"schema"`
			Host     string     `json:"host"`
			Group    string     `json:"group"`
			List     string     `json:"list"` // its digest
			Hosts    int        `json:"hosts"`
			Groups   int        `json:"groups"`
			Pings    []hostJSON `json:"pings"`
			PingedBy []hostJSON `json:"pinged_by"`
		}{timeline.Schema, l.Own.Name, l.Own.Group, l.Digest, l.Hosts, l.Groups, newHostsJSON(l.Pings), newHostsJSON(l.PingedBy)})
	} else {
		err = writeHosts(stdout, l)
	}
	switch {
	case err != nil:
		return exitFailed, err
	case l.Own.Group == "" || len(l.Pings) == 0:
		return exitWarning, nil
	}
	return exitOK, nil
}

func newHostsJSON(peers []pinglist.Peer) []hostJSON {
	all := []hostJSON{}
	for _, p := range peers {
		all = append(all, hostJSON{p.Name, p.Group, p.Scope, p.Address})
	}
	return all
}

func writeHosts(w io.Writer, l *agent.Pinglist) error {
	text := fmt.Sprintf("list %s: %s in %s\n", l.Digest, formatCount(l.Hosts, "host"), formatCount(l.Groups, "group"))
	if l.Own.Group == "" {
		text += fmt.Sprintf("%s is not in it: it pings none, and is pinged by none\n", l.Own.Name)
	} else {
		text += fmt.Sprintf("%s in %s pings %d and is pinged by %d\n", l.Own.Name, l.Own.Group, len(l.Pings), len(l.PingedBy))
	}
	for _, part := range []struct {
		what  string
		peers []pinglist.Peer
	}{{"pings", l.Pings}, {"pinged by", l.PingedBy}} {
		for _, p := range part.peers {
			text += fmt.Sprintf("%-9s  %-20s  %-16s  %-6s  %s\n", part.what, p.Name, p.Group, p.Scope, p.Address)
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

// formatCount returns a number with its noun, as in "1 host" or "2 hosts".
func formatCount(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
