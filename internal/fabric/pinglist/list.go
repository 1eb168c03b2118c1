package pinglist

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Host is a host of a List.
type Host struct {
	Name    string // unique
	Group   string // its rack, leaf or rail domain
	Address string // name or IP address at which its plugin listens; equal to Name if the list has no address
}

// List is the list of all hosts that probe each other. All hosts must have the same list, from which each computes which host probes which.
// A List is immutable and may be used concurrently.
type List struct {
	hosts  []Host         // sorted by group, then by name
	groups []span         // sorted by name
	index  map[string]int // index of each host in hosts
	digest string
}

// span is the range hosts[from:to] of a group.
type span struct{ from, to int }

func (s span) size() int { return s.to - s.from }

// The limits of a list. The whole list is kept in memory, and error messages quote lines of it.
const (
	maxHosts  = 100_000
	maxLine   = 1024
	maxFields = 3
)

// validName matches valid names of hosts and groups. They become tags of measurements and parts of TLS certificates.
var validName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`)

// ParseList parses a list. It has one line for each host with the host's name, its group and optionally its address, separated by blanks.
// The name is the default address. A # begins a comment. The error names the line.
func ParseList(r io.Reader) (*List, error) {
	l := &List{index: map[string]int{}}
	lines := map[string]int{}
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 0, maxLine), maxLine)
	n := 1
	for ; scan.Scan(); n++ {
		h, ok, err := parseHost(scan.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if !ok {
			continue
		}
		if first, twice := lines[h.Name]; twice {
			return nil, fmt.Errorf("line %d: host %s is in line %d already", n, h.Name, first)
		}
		if len(l.hosts) == maxHosts {
			return nil, fmt.Errorf("line %d: more than %d hosts", n, maxHosts)
		}
		lines[h.Name] = n
		l.hosts = append(l.hosts, h)
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n, err)
	}
	l.sortHosts()
	return l, nil
}

// parseHost parses a line. It returns false if the line has no host.
func parseHost(line string) (Host, bool, error) {
	line, _, _ = strings.Cut(line, "#")
	fields := strings.Fields(line)
	switch {
	case len(fields) == 0:
		return Host{}, false, nil
	case len(fields) == 1 || len(fields) > maxFields:
		return Host{}, false, fmt.Errorf("%q is not a host, its group and, if need be, its address", strings.TrimSpace(line))
	}
	for _, field := range fields[:2] {
		if !validName.MatchString(field) {
			return Host{}, false, fmt.Errorf("%q is not a name of letters, digits, dots, hyphens and underscores, at most 64", field)
		}
	}
	h := Host{Name: fields[0], Group: fields[1], Address: fields[0]}
	if len(fields) == maxFields {
		if h.Address = fields[2]; !validName.MatchString(h.Address) {
			if _, err := netip.ParseAddr(h.Address); err != nil {
				return Host{}, false, fmt.Errorf("%q is neither a name nor an IP address", h.Address)
			}
		}
	}
	return h, true, nil
}

// sortHosts sorts the hosts, so that the order of the lines does not matter, and sets the groups, the index and the digest.
func (l *List) sortHosts() {
	slices.SortFunc(l.hosts, func(a, b Host) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name)) })
	sum := sha256.New()
	for i, h := range l.hosts {
		l.index[h.Name] = i
		if i == 0 || h.Group != l.hosts[i-1].Group {
			l.groups = append(l.groups, span{i, i})
		}
		l.groups[len(l.groups)-1].to++
		// The digest excludes addresses, which do not affect which host probes which.
		fmt.Fprintf(sum, "%s %s\n", h.Name, h.Group)
	}
	l.digest = hex.EncodeToString(sum.Sum(nil)[:8])
}

// Digest returns 16 hexadecimal digits that are equal for two lists with the same hosts in the same groups.
func (l *List) Digest() string { return l.digest }

// Len returns the number of hosts.
func (l *List) Len() int { return len(l.hosts) }

// Groups returns the number of groups.
func (l *List) Groups() int { return len(l.groups) }

// Host returns the host with a name.
func (l *List) Host(name string) (Host, bool) {
	i, ok := l.index[name]
	if !ok {
		return Host{}, false
	}
	return l.hosts[i], true
}
