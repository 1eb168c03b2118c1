package lab

import (
	"context"
	"fmt"
	"strings"
)

// paravirtual is what guests with a VMware paravirtual RDMA device need. It is empty without WithPVRDMA.
type paravirtual struct {
	host           string // the library that is preloaded into qemu, for which it is the RDMA of the host
	driver, inject string // modules for the guest
}

// HasPVRDMA reports whether the host's qemu has a model of VMware's paravirtual RDMA device. QEMU 9.1 has it no more.
func HasPVRDMA(ctx context.Context) (bool, error) {
	models, err := runCommand(ctx, "", qemuProgram, "-device", "help")
	if err != nil {
		return false, fmt.Errorf("list the device models of qemu: %w", err)
	}
	return strings.Contains(models, `name "pvrdma"`), nil
}

// WithPVRDMA returns an image whose guests have a VMware paravirtual RDMA device, as a function of PCI, and can load its
// driver vmw_pvrdma. Debian's kernels come without it, so the first call for a kernel fetches its source (140 MB) and
// builds the driver, in some 20 seconds. The host needs no RDMA.
func (img *Image) WithPVRDMA(ctx context.Context) (*Image, error) {
	unlock, err := lockDir(ctx, img.cacheDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	with := *img
	if with.pvrdma.driver, err = buildPVRDMA(ctx, img.cacheDir, img.kernel); err != nil {
		return nil, err
	}
	if with.pvrdma.inject, err = buildPVInject(ctx, img.cacheDir, img.kernel); err != nil {
		return nil, err
	}
	if with.pvrdma.host, err = compileC(ctx, img.cacheDir, "pvhost", pvHostSource, "-shared", "-fPIC", "-pthread", "-ldl"); err != nil {
		return nil, err
	}
	return &with, nil
}

// pvrdmaArgs returns qemu's arguments for the device. It is the second function of a slot whose first one is a vmxnet3, to
// which the driver ties it. The device maps parts of the guest's memory a second time, and therefore takes none but this
// backend, shared.
func (g *guest) pvrdmaArgs() []string {
	return []string{
		"-object", fmt.Sprintf("memory-backend-ram,id=ram,size=%dM,share=on", g.memory),
		"-machine", "pc,memory-backend=ram",
		"-chardev", "socket,id=mux,path=" + qemuQuote(g.muxSocket()),
		"-netdev", "hubport,id=net0,hubid=0",
		"-device", "vmxnet3,id=nic0,netdev=net0,addr=10.0,multifunction=on,romfile=",
		"-device", "pvrdma,id=pvrdma0,ibdev=pvhost0,ibport=1,netdev=none,mad-chardev=mux,addr=10.1",
	}
}

// muxSocket returns the path of the socket at which the preloaded library is the daemon rdmacm-mux.
func (g *guest) muxSocket() string { return g.sockets + "/mux" }

// qemuEnv returns the variables that qemu needs besides those of this process.
func (g *guest) qemuEnv() []string {
	if g.image.pvrdma.host == "" {
		return nil
	}
	return []string{"LD_PRELOAD=" + g.image.pvrdma.host, "PVHOST_MUX=" + g.muxSocket(), "PVHOST_DIR=" + g.file("pvhost")}
}
