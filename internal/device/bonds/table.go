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

// answerLimit is the longest wait for a part of the list of network devices.
const answerLimit = 10 * time.Second

// retryAfter is the time from a failure until Run begins again.
const retryAfter = time.Minute

// Table holds the bonds of this network namespace. Its methods may be called concurrently, but Run only once.
type Table struct {
	mu    sync.Mutex
	links map[int]link // by index; nil until the first list
}

// Legs returns how many legs a bond or team has, and how many of them are up. netdev is the bond, one of its legs, or a VLAN
// on either. A leg is up if it has a carrier, if the bond's own monitoring has not found it down and, with 802.3ad, if it
// carries traffic. ok is false if there is no such bond. Legs reads the table only.
func (t *Table) Legs(netdev string) (legs, up int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bond := t.bondOf(netdev)
	if bond == 0 {
		return 0, 0, false
	}
	lacp := t.links[bond].lacp
	for _, l := range t.links {
		if l.master != bond || !isAggregate(l.slaveKind) {
			continue
		}
		legs++
		if l.carrier && !l.monitoredDown && (!lacp || !l.inactive) {
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
			case isAggregate(l.kind):
				return index
			case isAggregate(l.slaveKind):
				return l.master
			case l.kind != "vlan":
				return 0
			}
			index = l.lowerIndex
			l = t.links[index]
		}
	}
	return 0
}

// Run keeps the table up to date until ctx ends, and calls changed after each change of the table, always from the calling
// goroutine. When ctx ends, it does not wait for an answer of the kernel. After a failure Run calls warn and begins again
// retryAfter later. It does not report the same failure twice in a row.
func (t *Table) Run(ctx context.Context, changed func(), warn func(error)) {
	runRepeatedly(ctx, func() error {
		err := t.followLinks(ctx, changed)
		if ctx.Err() == nil {
			t.replaceLinks(nil, changed)
		}
		return err
	}, warn)
}

// runRepeatedly calls follow until ctx ends, with retryAfter between two calls. An error that is equal to the last one is
// passed to warn only if follow had worked for longer than retryAfter.
func runRepeatedly(ctx context.Context, follow func() error, warn func(error)) {
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

// followLinks lists all links, and then applies each message about a link. After messages were lost it lists all links again.
func (t *Table) followLinks(ctx context.Context, changed func()) error {
	s, err := netlink.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK)
	if err != nil {
		return err
	}
	end := func() { _ = s.Close() } // no written data can be lost
	defer context.AfterFunc(ctx, end)()
	defer end()
	for {
		links, err := listLinksUntilDone(ctx)
		if err != nil {
			return err
		}
		t.replaceLinks(links, changed)
		for err == nil {
			err = s.ReceiveMessages(func(kind uint16, body []byte) { t.handleMessage(kind, body, changed) })
		}
		if !errors.Is(err, netlink.ErrOverrun) {
			return err
		}
	}
}

// listLinksUntilDone returns the relevant links, or ctx.Err() when ctx ends. The request may wait in the kernel, where nothing
// can interrupt it. In that case listLinksUntilDone leaves its goroutine behind.
func listLinksUntilDone(ctx context.Context) (links map[int]link, err error) {
	done := make(chan struct{})
	var listed map[int]link
	var failed error
	go func() {
		defer close(done)
		listed, failed = listLinks()
	}()
	select {
	case <-done:
		return listed, failed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listLinks returns the relevant links, by index.
func listLinks() (map[int]link, error) {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, answerLimit)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	const skipStatistics = 1 << 3 // RTEXT_FILTER_SKIP_STATS (include/uapi/linux/rtnetlink.h)
	body := netlink.Attribute(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_EXT_MASK, netlink.Word(skipStatistics))
	links := map[int]link{}
	err = c.AskFor(unix.RTM_GETLINK, unix.RTM_NEWLINK, unix.NLM_F_DUMP, body, func(body []byte) error {
		if index, l, ok := parseLink(body); ok && l.isRelevant() {
			links[index] = l
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list network devices: %w", err)
	}
	return links, nil
}

// replaceLinks replaces all links, and calls changed.
func (t *Table) replaceLinks(links map[int]link, changed func()) {
	t.mu.Lock()
	t.links = links
	t.mu.Unlock()
	changed()
}

// handleMessage handles a message about one link, and calls changed if it changes the table.
func (t *Table) handleMessage(kind uint16, body []byte, changed func()) {
	if t.updateLink(kind, body) {
		changed()
	}
}

// updateLink applies a message about one link, and reports whether the table has changed.
func (t *Table) updateLink(kind uint16, body []byte) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch kind {
	case unix.RTM_NEWLINK:
		index, l, ok := parseLink(body)
		before, had := t.links[index]
		switch {
		case !ok || l == before:
			return false
		case l.isRelevant():
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
