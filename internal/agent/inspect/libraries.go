package inspect

import (
	"io/fs"
	"path"
	"regexp"

	"rdma_events/internal/device/verbs"
)

// unknownRelease is the release of a library whose file's name does not contain it.
const unknownRelease = "unknown"

// Provider is a library that drives one vendor's devices.
type Provider struct {
	Name    string // as in "mlx5"
	ABI     string // as in "34"
	Release string // of rdma-core; "unknown" if the file's name does not contain it
}

// String returns the name with the release, if that is known.
func (p Provider) String() string {
	if p.Release == unknownRelease {
		return p.Name
	}
	return p.Name + " " + p.Release
}

// LibraryRelease returns the release of rdma-core to which a library belongs, as in "44.0". It returns "unknown" if
// neither the name of the file nor the name of its link target contains the release. Examples are
// libibverbs.so.1.14.44.0 and libmlx5.so.1.24.44.0: the release follows the ABI (rdma_shared_library in rdma-core's
// buildlib).
func (f Files) LibraryRelease(file string) string {
	if target, err := fs.ReadLink(f.FS, Relative(file)); err == nil {
		file = target
	}
	if m := regexp.MustCompile(`\.so\.\d+\.\d+\.(\d+\.\d+)$`).FindStringSubmatch(file); m != nil {
		return m[1]
	}
	return unknownRelease
}

// Providers lists the providers that are installed beside libibverbs. The library loads
// libibverbs/lib<name>-rdmav<ABI>.so (rdma-core, libibverbs/init.c).
func (f Files) Providers(library string) []Provider {
	dir := path.Join(Relative(path.Dir(library)), "libibverbs")
	form := regexp.MustCompile(`^lib(.+)-rdmav(\d+)\.so$`)
	var found []Provider
	for _, file := range f.List(dir) {
		if m := form.FindStringSubmatch(file); m != nil {
			found = append(found, Provider{m[1], m[2], f.LibraryRelease(path.Join(dir, file))})
		}
	}
	return found
}

// Libraries contains the releases of the libraries that drive a device. An unknown release of libibverbs is "unknown";
// an unknown release of the provider is omitted. Provider and ABI are "" if no provider is installed.
type Libraries struct {
	Verbs    string // libibverbs
	Provider string // as in "mlx5 44.0"
	ABI      string // of the providers, as in "34"
}

// Libraries returns the libraries for devices of a kernel driver. library is the path of libibverbs.
func (f Files) Libraries(library, driver string) Libraries {
	l := Libraries{Verbs: f.LibraryRelease(library)}
	want := verbs.ProviderName(driver)
	for _, p := range f.Providers(library) {
		if p.Name == want {
			l.Provider, l.ABI = p.String(), p.ABI
		}
	}
	return l
}
