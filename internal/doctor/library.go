package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldestLibrary is the release of rdma-core from which on libibverbs has every
// symbol that the worker needs.
const oldestLibrary = 28

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
		version := libraryVersion(x.realPath(x.library))
		r.Text = fmt.Sprintf("version %s (%s)", version, x.library)
		if major, err := strconv.Atoi(strings.Split(version, ".")[0]); err == nil && major < oldestLibrary {
			r.Status = Warn
			r.Text += fmt.Sprintf(", older than %d, from which on everything works", oldestLibrary)
			r.Fix = x.install()
		}
	}
	return []Result{r}
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
			results = append(results, Result{Check: name, Subject: d.Name, Status: Fail, Fix: x.install(),
				Text: fmt.Sprintf("its driver %s needs the provider library of %s, which is not installed", d.Driver, want)})
		}
	}
	return results
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
