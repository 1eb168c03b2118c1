package pinglist

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func parse(t testing.TB, text string) *List {
	t.Helper()
	l, err := ParseList(strings.NewReader(text))
	require.NoError(t, err)
	return l
}

func TestAListHasHostsGroupsAndAddresses(t *testing.T) {
	l := parse(t, "# the hosts of hall 3\n\ngpu002 leaf1 10.0.0.2 # moved\ngpu001\tleaf1\ngpu100 leaf0 fd00::1\r\n")
	require.Equal(t, 3, l.Len())
	require.Equal(t, 2, l.Groups())
	for _, want := range []Host{{"gpu001", "leaf1", "gpu001"}, {"gpu002", "leaf1", "10.0.0.2"}, {"gpu100", "leaf0", "fd00::1"}} {
		got, ok := l.Host(want.Name)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	_, ok := l.Host("gpu003")
	require.False(t, ok)
	require.Zero(t, parse(t, "").Len())
}

func TestABadLineIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"a g\nb\n":                          `line 2: "b" is not a host, its group`,
		"a g 10.0.0.1 more\n":               "line 1: ",
		"a g\n\na h\n":                      "line 3: host a is in line 1 already",
		"a/b g\n":                           `line 1: "a/b" is not a name`,
		"a -g\n":                            `line 1: "-g" is not a name`,
		"a g 10.0.0.1:80\n":                 `line 1: "10.0.0.1:80" is neither`,
		strings.Repeat("a", 65) + " g":      "line 1: ",
		"a " + strings.Repeat("#", maxLine): "line 1: ",
	} {
		_, err := ParseList(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%q", text)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestTheDigestIsOfHostsAndGroupsAlone(t *testing.T) {
	a := parse(t, "a g\nb h\n")
	require.Len(t, a.Digest(), 16)
	require.Equal(t, a.Digest(), parse(t, "# x\nb h 10.0.0.1\na   g\n").Digest())
	require.NotEqual(t, a.Digest(), parse(t, "a h\nb h\n").Digest())
	require.NotEqual(t, a.Digest(), parse(t, "a g\nb h\nc h\n").Digest())
}

// newFleet returns a list of groups with the given sizes.
func newFleet(t testing.TB, sizes ...int) *List {
	t.Helper()
	var b strings.Builder
	for g, size := range sizes {
		for h := range size {
			fmt.Fprintf(&b, "g%03dh%04d g%03d\n", g, h, g)
		}
	}
	return parse(t, b.String())
}

func evenSizes(groups, size int) []int { return slices.Repeat([]int{size}, groups) }

// allPairs returns all pairs of a list, and the number of hosts that probe each host.
func allPairs(l *List, peers int) (all map[[2]string]Scope, in map[string]int) {
	all, in = map[[2]string]Scope{}, map[string]int{}
	for _, h := range l.hosts {
		for _, p := range l.Pings(h.Name, peers) {
			all[[2]string{h.Name, p.Name}] = p.Scope
			in[p.Name]++
		}
	}
	return all, in
}

func TestEachHostPingsEightAndEachPairOfGroupsIsProbed(t *testing.T) {
	l := newFleet(t, evenSizes(50, 20)...)
	all, in := allPairs(l, 8)
	require.Len(t, all, 8*1000, "no host is there twice")
	require.Len(t, in, 1000)
	groups := map[[2]string]bool{}
	for pair, scope := range all {
		a, _ := l.Host(pair[0])
		b, _ := l.Host(pair[1])
		require.NotEqual(t, a.Name, b.Name)
		require.Equal(t, scope == ScopeGroup, a.Group == b.Group)
		if scope == ScopeAcross {
			groups[[2]string{a.Group, b.Group}] = true
		}
	}
	require.Len(t, groups, 50*49)
	for host, n := range in {
		require.Equal(t, 8, n, host)
	}
}

func TestInRaggedGroupsNoHostIsForgottenOrOverrun(t *testing.T) {
	sizes := make([]int, 60)
	for i := range sizes {
		sizes[i] = 12 + i%13
	}
	l := newFleet(t, sizes...)
	_, in := allPairs(l, 8)
	require.Len(t, in, l.Len())
	least, most := 1000, 0
	for _, n := range in {
		least, most = min(least, n), max(most, n)
	}
	t.Logf("%d to %d hosts ping each", least, most)
	require.GreaterOrEqual(t, least, 4)
	require.LessOrEqual(t, most, 16)
}

// countLostPairs counts the pairs of list a that list b does not have.
func countLostPairs(a, b *List) (n int) {
	before, _ := allPairs(a, 8)
	after, _ := allPairs(b, 8)
	for pair := range before {
		if _, same := after[pair]; !same {
			n++
		}
	}
	return n
}

func TestAHostMoreChangesFewPairs(t *testing.T) {
	sizes := evenSizes(50, 20)
	sizes[7]++
	n := countLostPairs(newFleet(t, evenSizes(50, 20)...), newFleet(t, sizes...))
	t.Logf("%d of 8,000 pairs", n)
	require.LessOrEqual(t, n, 10)
}

func TestSmallGroupIsNotPingedByMoreHostsThanItAnswers(t *testing.T) {
	for name, sizes := range map[string][]int{
		"a leaf of one host beside a leaf of 40": {40, 1},
		"a rack of one host beside 32 racks":     append(evenSizes(32, 32), 1),
		"a rack of two hosts beside 32 racks":    append(evenSizes(32, 32), 2),
		"a rack of three hosts beside 16 racks":  append(evenSizes(16, 40), 3),
		"racks of one host":                      evenSizes(100, 1),
	} {
		_, in := allPairs(newFleet(t, sizes...), 8)
		require.LessOrEqual(t, slices.Max(slices.Collect(maps.Values(in))), MaxPings, name)
	}
}

func TestNoHostIsPingedByMoreHostsThanItAnswers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		sizes := make([]int, 1+random.IntN(40))
		most := []int{2, 4, 12, 60}[random.IntN(4)]
		for i := range sizes {
			sizes[i] = 1 + random.IntN(most)
		}
		peers := 1 + random.IntN(MaxPings)
		l := newFleet(t, sizes...)
		all, in := allPairs(l, peers)
		if len(all) > 0 {
			require.LessOrEqual(t, slices.Max(slices.Collect(maps.Values(in))), MaxPings, "peers %d, groups of %v", peers, sizes)
		}
		for _, h := range l.hosts {
			require.LessOrEqual(t, len(l.Pings(h.Name, peers)), peers)
		}
	}
}

func TestSmallClusterPingsAllHosts(t *testing.T) {
	for _, sizes := range [][]int{{2}, {1, 1}, {3, 3}, {6}, {4, 4, 1}, {5, 5}, evenSizes(9, 1)} {
		l := newFleet(t, sizes...)
		all, _ := allPairs(l, 9)
		require.Len(t, all, l.Len()*(l.Len()-1), "groups of %v", sizes)
	}
}

// Adding a host must not change the peers of most hosts, even if there are few groups and each provides several hosts.
func TestFewGroupsGiveMoreThanOneHostEach(t *testing.T) {
	all, in := allPairs(newFleet(t, 5, 5, 5), 8)
	require.Len(t, all, 8*15)
	require.Len(t, in, 15)
}

func TestAFewHostsAreProbedAsFarAsTheyGo(t *testing.T) {
	require.Empty(t, newFleet(t, 1).Pings("g000h0000", 8))
	require.Empty(t, newFleet(t, 3).Pings("unknown", 8))
	require.Empty(t, newFleet(t, 3, 3).Pings("g000h0000", 0))
	names := func(l *List) (all []string) {
		for _, p := range l.Pings("g000h0001", 8) {
			all = append(all, p.Name+" "+string(p.Scope))
		}
		return all
	}
	require.Equal(t, []string{"g000h0002 group", "g000h0000 group"}, names(newFleet(t, 3)))
	require.Equal(t, []string{
		"g000h0002 group", "g000h0000 group", "g001h0000 across", "g001h0001 across", "g002h0000 across",
	}, names(newFleet(t, 3, 2, 1)))
	require.Len(t, names(newFleet(t, 20)), 8, "its own group gives what others cannot")
}

func TestWhoIsPingedKnowsByWhom(t *testing.T) {
	l := newFleet(t, 5, 7, 6)
	all, _ := allPairs(l, 8)
	n := 0
	for _, h := range l.hosts {
		for _, p := range l.PingedBy(h.Name, 8) {
			require.Equal(t, p.Scope, all[[2]string{p.Name, h.Name}])
			n++
		}
	}
	require.Equal(t, len(all), n)
}

func FuzzList(f *testing.F) {
	f.Add("a g\nb g 10.0.0.1 # c\n")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseList(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, h := range l.hosts {
			seen := map[string]bool{h.Name: true}
			for _, p := range l.Pings(h.Name, 8) {
				require.False(t, seen[p.Name])
				seen[p.Name] = true
			}
			require.LessOrEqual(t, len(seen), 9)
		}
	})
}
