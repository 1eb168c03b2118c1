package bonds

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// answerTime is the longest wait for a part of the list of network devices.
const answerTime = 10 * time.Second

// retryAfter is how long after a failure Run begins again.
const retryAfter = time.Minute

// Table has the bonds of this network namespace. Its methods may be called concurrently; Run once.
type Table struct {
	mu    sync.Mutex
	links map[int]link // by index; nil while the kernel has not been asked
}

// Legs returns how many legs the bond or team has that a network device is, is a leg of, or is a VLAN of, and how many of
// them are up: they have a carrier, the bond's own monitoring has not found them down, and with 802.3ad they carry traffic.
// ok is false if there is no such bond. It asks no one.
func (t *Table) Legs(netdev string) (legs, up int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bond := t.bondOf(netdev)
	if bond == 0 {
		return 0, 0, false
	}
	lacp := t.links[bond].lacp
	for _, l := range t.links {
		if l.master != bond || !aggregates(l.slaveKind) {
			continue
		}
		legs++
		if l.carrier && !l.bad && (!lacp || !l.waits) {
			up++
		}
	}
	return legs, up, true
}

// bondOf returns the index of the bond of a network device, 0 if there is none.
func (t *Table) bondOf(netdev string) int {
	for index, l := range t.links {
		if l.name != netdev {
			continue
		}
		for range 4 { // VLANs of VLANs
			switch {
			case aggregates(l.kind):
				return index
			case aggregates(l.slaveKind):
				return l.master
			case l.kind != "vlan":
				return 0
			}
			index = l.below
			l = t.links[index]
		}
	}
	return 0
}

// Run keeps the table until ctx ends, and calls changed, from one goroutine, after each change of it. It does not wait for
// the kernel's answer when ctx ends. A failure is passed to warn, and Run begins again later; the same one again and again is
// passed once.
func (t *Table) Run(ctx context.Context, changed func(), warn func(error)) {
	repeat(ctx, func() error {
		err := t.follow(ctx, changed)
		if ctx.Err() == nil {
			t.replace(nil, changed)
		}
		return err
	}, warn)
}

// repeat calls follow again and again until ctx ends. follow has worked if it ends later than after retryAfter.
func repeat(ctx context.Context, follow func() error, warn func(error)) {
	last := ""
	for {
		begin := time.Now()
		err := follow()
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != last || time.Since(begin) > retryAfter {
			last = text
			warn(fmt.Errorf("legs of bonds are unknown, next attempt in %v: %w", retryAfter, err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryAfter):
		}
	}
}

// follow asks for all links and then applies each message about one. After messages were lost it asks again.
func (t *Table) follow(ctx context.Context, changed func()) error {
	s, err := netlink.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK)
	if err != nil {
		return err
	}
	end := func() { _ = s.Close() } // no written data can be lost
	defer context.AfterFunc(ctx, end)()
	defer end()
	for {
		links, err := listUnlessDone(ctx)
		if err != nil {
			return err
		}
		t.replace(links, changed)
		for err == nil {
			err = s.ReceiveMessages(func(kind uint16, body []byte) { t.apply(kind, body, changed) })
		}
		if !errors.Is(err, netlink.ErrOverrun) {
			return err
		}
	}
}

// listUnlessDone lists the links that matter. The kernel may hold the request up, where nothing ends the wait: then the
// goroutine is left behind when ctx ends.
func listUnlessDone(ctx context.Context) (links map[int]link, err error) {
	done := make(chan struct{})
	var listed map[int]link
	var failed error
	go func() {
		defer close(done)
		listed, failed = list()
	}()
	select {
	case <-done:
		return listed, failed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func list() (map[int]link, error) {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, answerTime)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	const skipStatistics = 1 << 3 // RTEXT_FILTER_SKIP_STATS (include/uapi/linux/rtnetlink.h)
	body := netlink.Attribute(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_EXT_MASK, netlink.Word(skipStatistics))
	links := map[int]link{}
	err = c.AskFor(unix.RTM_GETLINK, unix.RTM_NEWLINK, unix.NLM_F_DUMP, body, func(body []byte) error {
		if index, l, ok := parse(body); ok && l.matters() {
			links[index] = l
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list network devices: %w", err)
	}
	return links, nil
}

func (t *Table) replace(links map[int]link, changed func()) {
	t.mu.Lock()
	t.links = links
	t.mu.Unlock()
	changed()
}

// apply handles a message about one link.
func (t *Table) apply(kind uint16, body []byte, changed func()) {
	if t.update(kind, body) {
		changed()
	}
}

func (t *Table) update(kind uint16, body []byte) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch kind {
	case unix.RTM_NEWLINK:
		index, l, ok := parse(body)
		before, had := t.links[index]
		switch {
		case !ok || l == before:
			return false
		case l.matters():
			t.links[index] = l
			return true
		}
		delete(t.links, index)
		return had
	case unix.RTM_DELLINK:
		if len(body) < unix.SizeofIfInfomsg || body[0] != unix.AF_UNSPEC {
			return false
		}
		index := int(int32(binary.NativeEndian.Uint32(body[4:])))
		_, had := t.links[index]
		delete(t.links, index)
		return had
	}
	return false
}
