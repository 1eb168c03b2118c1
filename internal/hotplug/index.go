package hotplug

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// RDMA netlink (include/uapi/rdma/rdma_netlink.h).
const (
	nldevGet         = 5<<10 | 1  // RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET
	nldevGetChardev  = 5<<10 | 15 // RDMA_NLDEV_CMD_GET_CHARDEV
	nldevDevIndex    = 1          // RDMA_NLDEV_ATTR_DEV_INDEX
	nldevDevName     = 2          // RDMA_NLDEV_ATTR_DEV_NAME
	nldevChardevType = 69         // RDMA_NLDEV_ATTR_CHARDEV_TYPE
	attrTypeMask     = 1<<14 - 1  // NLA_TYPE_MASK
	// indexBuffer is the size of the largest part of a dump that the kernel sends.
	indexBuffer = 32 << 10
	// indexTimeout is far longer than a dump takes. The kernel answers within
	// the request, so that a read should never wait.
	indexTimeout = time.Second
)

var errShort = errors.New("message is cut off")

// KernelIndexes asks RDMA netlink for the indexes of all RDMA devices, by name.
// It needs no privilege. Opening its socket may load ib_core.
func KernelIndexes() (map[string]int, error) {
	fd, err := ask(request(nldevGet, unix.NLM_F_DUMP, nil))
	if err != nil {
		return nil, fmt.Errorf("request device indexes: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	return receiveIndexes(fd)
}

// LoadNodes makes the kernel load ib_uverbs, which makes the nodes of all RDMA
// devices, and returns when it is loaded. It needs no privilege: when a process asks
// for a device's node, the kernel loads the module that makes it
// (ib_get_client_nl_info in drivers/infiniband/core/device.c). libibverbs does the
// same. Without an RDMA device LoadNodes does not load it.
func LoadNodes() error {
	indexes, err := KernelIndexes()
	if err != nil {
		return err
	}
	for _, index := range indexes {
		fd, err := ask(request(nldevGetChardev, 0, nodeOf(index)))
		if err != nil {
			return fmt.Errorf("request node of an RDMA device: %w", err)
		}
		return unix.Close(fd) // the kernel loads the module before it returns from the request
	}
	return nil
}

// ask sends a message and returns a socket from which the answer can be read.
func ask(message []byte) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != nil {
		return -1, fmt.Errorf("open RDMA netlink socket: %w", err)
	}
	timeout := unix.NsecToTimeval(indexTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("set timeout of RDMA netlink: %w", err)
	}
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("send to RDMA netlink: %w", err)
	}
	return fd, nil
}

func request(command, flags uint16, attributes []byte) []byte {
	b := make([]byte, 0, unix.NLMSG_HDRLEN+len(attributes))
	b = binary.NativeEndian.AppendUint32(b, uint32(cap(b)))
	b = binary.NativeEndian.AppendUint16(b, command)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|flags)
	b = binary.NativeEndian.AppendUint32(b, 1) // sequence number
	b = binary.NativeEndian.AppendUint32(b, 0)
	return append(b, attributes...)
}

// nodeOf returns the attributes of a request for the uverbs node of a device.
func nodeOf(index int) []byte {
	const client = "uverbs\x00\x00" // with its zero byte, padded to four bytes
	b := binary.NativeEndian.AppendUint16(nil, unix.SizeofNlAttr+4)
	b = binary.NativeEndian.AppendUint16(b, nldevDevIndex)
	b = binary.NativeEndian.AppendUint32(b, uint32(index))
	b = binary.NativeEndian.AppendUint16(b, unix.SizeofNlAttr+uint16(len(client))-1)
	b = binary.NativeEndian.AppendUint16(b, nldevChardevType)
	return append(b, client...)
}

func receiveIndexes(fd int) (map[string]int, error) {
	indexes := make(map[string]int)
	buf := make([]byte, indexBuffer)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("receive device indexes: %w", err)
		}
		done, err := parseIndexes(buf[:n], indexes)
		if err != nil {
			return nil, fmt.Errorf("parse device indexes: %w", err)
		}
		if done {
			return indexes, nil
		}
	}
}

// parseIndexes adds the devices of one part of a dump to indexes and reports
// whether it was the last one.
func parseIndexes(part []byte, indexes map[string]int) (bool, error) {
	messages, err := syscall.ParseNetlinkMessage(part)
	if err != nil {
		return false, err
	}
	for _, m := range messages {
		switch m.Header.Type {
		case unix.NLMSG_DONE:
			return true, messageError(m.Data)
		case unix.NLMSG_ERROR:
			return false, messageError(m.Data)
		case nldevGet:
			name, index, err := parseDevice(m.Data)
			if err != nil {
				return false, err
			}
			if name != "" {
				indexes[name] = index
			}
		}
	}
	return false, nil
}

// messageError reads the first field of NLMSG_ERROR and NLMSG_DONE, a negative
// errno or 0.
func messageError(data []byte) error {
	if len(data) < 4 {
		return errShort
	}
	if code := int32(binary.NativeEndian.Uint32(data)); code < 0 {
		return unix.Errno(-code)
	}
	return nil
}

// parseDevice reads one device's attributes (struct nlattr and its payload,
// aligned to four bytes). name is "" when the name or the index is missing.
func parseDevice(data []byte) (name string, index int, err error) {
	index = -1
	for len(data) >= unix.SizeofNlAttr {
		length := int(binary.NativeEndian.Uint16(data))
		if length < unix.SizeofNlAttr || length > len(data) {
			return "", -1, errShort
		}
		value := data[unix.SizeofNlAttr:length]
		switch kind := binary.NativeEndian.Uint16(data[2:]) & attrTypeMask; {
		case kind == nldevDevName:
			name = string(bytes.TrimRight(value, "\x00"))
		case kind == nldevDevIndex && len(value) == 4:
			index = int(binary.NativeEndian.Uint32(value))
		}
		data = data[min(len(data), (length+3)&^3):]
	}
	if index < 0 {
		return "", -1, nil
	}
	return name, index, nil
}
