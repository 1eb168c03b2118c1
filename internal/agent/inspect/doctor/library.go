package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/verbs"
)

// minLibraryRelease is the first release of rdma-core whose libibverbs has every symbol that the worker needs.
const minLibraryRelease = 28

// newProviders returns the providers that rdma-core added after minLibraryRelease, each with its first release
// (providers/ in its tags up to v65). The worker needs nothing else from newer releases: it has its own names of events
// and completions, and its own table of rates.
func newProviders() map[string]int {
	return map[string]int{"irdma": 37, "erdma": 43, "mana": 44, "ionic": 61}
}

// checkLibrary reports the library that the worker's loader finds.
func checkLibrary(x *examination) []Result {
	r := Result{Check: "libibverbs"}
	switch {
	case x.worker == nil || x.versionErr != nil:
		r.Status, r.Text = Warn, "not checked, because the worker program, which loads it, cannot be used"
		r.Fix = x.installWorker()
	case x.libraryErr != nil:
		r.Status, r.Text, r.Fix = Fail, x.libraryErr.Error(), x.installLibrary()
	default:
		r.Text = fmt.Sprintf("version %s (%s)", x.libraryVersion(), x.library)
		if x.olderThan(minLibraryRelease) {
			r.Status = Warn
			r.Text += fmt.Sprintf(", older than %d, the first release with which everything works", minLibraryRelease)
			r.Fix = x.installLibrary()
		}
		if lacks := x.listLackingProviders(); lacks != "" {
			r.Text += "; it has no provider for " + lacks
		}
	}
	return []Result{r}
}

// libraryVersion returns the release of the library that the worker's loader finds, as in "44.0". It returns "unknown"
// if the file's name does not contain it.
func (x *examination) libraryVersion() string { return x.files().LibraryRelease(x.library) }

// olderThan reports whether the library is known to be older than a release.
func (x *examination) olderThan(release int) bool {
	major := leadingNumber(x.libraryVersion())
	return major > 0 && major < release
}

// listLackingProviders lists the providers that only later releases of rdma-core contain, the oldest first.
func (x *examination) listLackingProviders() string {
	since := newProviders()
	names := slices.SortedFunc(maps.Keys(since), func(a, b string) int { return since[a] - since[b] })
	var later []string
	for _, name := range names {
		if x.olderThan(since[name]) {
			later = append(later, fmt.Sprintf("%s (from release %d on)", name, since[name]))
		}
	}
	return strings.Join(later, ", ")
}

// checkProviders checks that a provider is installed for each device's driver.
func checkProviders(x *examination) []Result {
	const name = "providers"
	if x.library == "" {
		return nil // checkLibrary reports the reason
	}
	installed := x.files().Providers(x.library)
	if len(installed) == 0 {
		return []Result{{Check: name, Status: Fail, Fix: x.installLibrary(),
			Text: "no provider library is installed beside libibverbs, so it will list no device"}}
	}
	results := []Result{{Check: name, Text: "installed: " + joinProviders(installed) + " (ABI rdmav" + installed[0].ABI + ")"}}
	for i := range x.devices {
		d := &x.devices[i]
		want := verbs.ProviderName(d.Driver)
		has := slices.ContainsFunc(installed, func(p inspect.Provider) bool { return p.Name == want })
		if !has && !d.wasOpened() && d.whyUnwatchable() == "" {
			results = append(results, x.missingProvider(d, want))
		}
	}
	return results
}

// missingProvider returns the result for a missing provider. It distinguishes a provider that is not installed from a
// provider that the installed release does not contain.
func (x *examination) missingProvider(d *device, want string) Result {
	r := Result{Check: "providers", Subject: d.Name, Status: Fail, Fix: x.installLibrary(),
		Text: fmt.Sprintf("its driver %s needs the provider library of %s, which ", d.Driver, want)}
	if since := newProviders()[want]; x.olderThan(since) {
		r.Text += fmt.Sprintf("rdma-core contains from release %d on, but here is %s; upgrade rdma-core, and if there is no newer one, the distribution",
			since, x.libraryVersion())
	} else {
		r.Text += "is not installed"
	}
	return r
}

func joinProviders(all []inspect.Provider) string {
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

// wasOpened reports whether a trial opened the device.
func (d *device) wasOpened() bool {
	return slices.ContainsFunc(d.trials, func(t methodTrial) bool { return t.Opened })
}

// leadingNumber returns the number at the beginning of a text, or 0.
func leadingNumber(text string) int {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.Atoi(text[:end])
	if err != nil {
		return 0
	}
	return n
}
