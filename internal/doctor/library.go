package doctor

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// oldestLibrary is the release of rdma-core from which on libibverbs has every
// symbol that the worker needs.
const oldestLibrary = 28

// newProviders are the releases of rdma-core that brought a provider since then
// (providers/ in its tags up to v65). Nothing else of an older library is missed:
// the worker names events and completions, and knows rates, by itself.
func newProviders() map[string]int {
	return map[string]int{"irdma": 37, "erdma": 43, "mana": 44, "ionic": 61}
}

// checkLibrary reports the library that the worker's loader finds.
func checkLibrary(x *examination) []Result {
	r := Result{Check: "libibverbs"}
	switch {
	case x.worker == nil || x.versionErr != nil:
		r.Status, r.Text = Warn, "not looked for, because the worker program, which loads it, cannot be used"
		r.Fix = x.installWorker()
	case x.libraryErr != nil:
		r.Status, r.Text, r.Fix = Fail, x.libraryErr.Error(), x.install()
	default:
		r.Text = fmt.Sprintf("version %s (%s)", x.libraryVersion(), x.library)
		if x.olderThan(oldestLibrary) {
			r.Status = Warn
			r.Text += fmt.Sprintf(", older than %d, from which on everything works", oldestLibrary)
			r.Fix = x.install()
		}
		if lacks := x.lacks(); lacks != "" {
			r.Text += "; it has no provider for " + lacks
		}
	}
	return []Result{r}
}

// libraryVersion returns the release of the library that the worker's loader
// finds, as in "44.0"; "unknown" where its file does not say.
func (x *examination) libraryVersion() string { return libraryVersion(x.realPath(x.library)) }

// olderThan reports whether that is known to be older than a release.
func (x *examination) olderThan(release int) bool {
	major := leading(x.libraryVersion())
	return major > 0 && major < release
}

// lacks lists the providers that only later releases of rdma-core have, oldest
// first.
func (x *examination) lacks() string {
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

// realPath follows a symbolic link of the library directory.
func (x *examination) realPath(file string) string {
	target, err := fs.ReadLink(x.Root, relative(file))
	if err != nil {
		return file
	}
	return target
}

// libraryVersion takes the release of rdma-core from a file's name, as in
// libibverbs.so.1.14.44.0 and libmlx5.so.1.24.44.0: after the ABI comes the
// package version (rdma_shared_library of rdma-core's buildlib).
func libraryVersion(file string) string {
	if m := regexp.MustCompile(`\.so\.\d+\.\d+\.(\d+\.\d+)$`).FindStringSubmatch(file); m != nil {
		return m[1]
	}
	return "unknown"
}

// provider is a library that drives one vendor's devices.
type provider struct{ name, abi, version string }

func (p provider) String() string {
	if p.version == "unknown" {
		return p.name
	}
	return p.name + " " + p.version
}

// providers lists what is installed beside libibverbs, which looks for
// libibverbs/lib<name>-rdmav<ABI>.so (rdma-core, libibverbs/init.c).
func (x *examination) providers() []provider {
	dir := path.Join(strings.TrimPrefix(path.Dir(x.library), "/"), "libibverbs")
	form := regexp.MustCompile(`^lib(.+)-rdmav(\d+)\.so$`)
	var found []provider
	for _, file := range x.list(dir) {
		if m := form.FindStringSubmatch(file); m != nil {
			found = append(found, provider{m[1], m[2], libraryVersion(x.realPath(path.Join(dir, file)))})
		}
	}
	return found
}

// providerOf names the provider of a kernel driver where the names differ
// (rdma-core, providers/).
func providerOf(driver string) string {
	others := map[string]string{
		"rdma_rxe": "rxe", "ice": "irdma", "i40e": "irdma", "bnxt_en": "bnxt_re", "qede": "qedr", "be2net": "ocrdma",
		"hns3": "hns", "hfi1": "hfi1verbs", "ib_qib": "ipathverbs", "ib_mthca": "mthca", "iw_cxgb4": "cxgb4",
		"mlx5_ib": "mlx5", "mlx4_ib": "mlx4",
	}
	if name, ok := others[driver]; ok {
		return name
	}
	return strings.TrimSuffix(driver, "_core")
}

// checkProviders wants a provider for the driver of each device.
func checkProviders(x *examination) []Result {
	const name = "providers"
	if x.library == "" {
		return nil // checkLibrary has the reason
	}
	installed := x.providers()
	if len(installed) == 0 {
		return []Result{{Check: name, Status: Fail, Fix: x.install(),
			Text: "no provider library is installed beside libibverbs, so it will list no device"}}
	}
	results := []Result{{Check: name, Text: "installed: " + join(installed) + " (ABI rdmav" + installed[0].abi + ")"}}
	for i := range x.devices {
		d := &x.devices[i]
		want := providerOf(d.Driver)
		has := slices.ContainsFunc(installed, func(p provider) bool { return p.name == want })
		if !has && !d.opened() {
			results = append(results, x.missingProvider(d, want))
		}
	}
	return results
}

// missingProvider tells a provider that is not installed from one that the
// installed release does not have.
func (x *examination) missingProvider(d *device, want string) Result {
	r := Result{Check: "providers", Subject: d.Name, Status: Fail, Fix: x.install(),
		Text: fmt.Sprintf("its driver %s needs the provider library of %s, which ", d.Driver, want)}
	if since := newProviders()[want]; x.olderThan(since) {
		r.Text += fmt.Sprintf("rdma-core has from release %d on, and here is %s; if there is none newer, a newer release of the distribution has it",
			since, x.libraryVersion())
	} else {
		r.Text += "is not installed"
	}
	return r
}

// Libraries are the releases of the libraries that a device is driven by; ""
// for what their files do not say.
type Libraries struct {
	Verbs    string // libibverbs
	Provider string // as in "mlx5 44.0"
	ABI      string // of the providers, as in "34"
}

// Libraries returns those of devices of a kernel driver, with library the file
// of libibverbs.
func (s *System) Libraries(library, driver string) Libraries {
	x := &examination{System: s, library: library}
	l := Libraries{Verbs: x.libraryVersion()}
	want := providerOf(driver)
	for _, p := range x.providers() {
		if p.name == want {
			l.Provider, l.ABI = p.String(), p.abi
		}
	}
	return l
}

func join(all []provider) string {
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

func (d *device) opened() bool {
	return slices.ContainsFunc(d.trials, func(t trialOf) bool { return t.Opened })
}
