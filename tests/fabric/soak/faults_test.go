package soak

import (
	"slices"
	"time"

	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/verdict"
)

// run has a fault happen, and returns when it is over.
func (w *world) fail(p *plan, f *fault) {
	w.note("begins: %v", f)
	defer w.note("over:   %v", f)
	h := w.host(f.host)
	switch f.kind {
	case reset:
		w.tcp.reset(w.concerned(f))
	case cut:
		w.tcp.cut(w.concerned(f))
		time.Sleep(f.lasting)
		w.tcp.heal(w.concerned(f))
	case restart:
		h.alone(func() {
			h.end(f.how)
			time.Sleep(f.lasting)
			h.restart()
		})
	case off:
		w.switchOff(h, f)
	case worker1, unplug:
		w.loseDevice(h, f)
	case truncated:
		w.lack(p, h, f.peer, true)
		time.Sleep(f.lasting)
		w.lack(p, h, f.peer, false)
	case removed:
		w.relist(p, f.host, true, time.Minute)
		time.Sleep(f.lasting)
		w.relist(p, f.host, false, time.Minute)
	case added:
		h.alone(func() {
			h.present = true
			h.restart()
		})
		w.relist(p, f.host, false, f.lasting)
	case newKeys:
		w.changeKeys(f)
	case clockStep:
		h.step.Add(int64(f.step))
		time.Sleep(f.lasting)
		h.step.Add(-int64(f.step))
	case duplicates:
		w.double(linkOf(f.host, f.peer), true)
		time.Sleep(f.lasting)
		w.double(linkOf(f.host, f.peer), false)
	case severLink, severHost:
		w.severFor(h, f)
	}
}

// concerned returns the links of a fault: one, those of a host, or all.
func (w *world) concerned(f *fault) []link {
	switch {
	case f.host == "":
		return w.links()
	case f.peer == "":
		return w.others(f.host)
	}
	return []link{linkOf(f.host, f.peer)}
}

// restart starts the process, unless it runs or the host is yet to be added.
func (h *host) restart() {
	if h.present && h.running() == nil {
		h.start()
	}
}

// loseDevice ends the worker of a device, and starts another one.
func (w *world) loseDevice(h *host, f *fault) {
	h.alone(func() {
		p := h.running()
		if p == nil {
			return
		}
		p.lose(f.device, f.kind == unplug)
		time.Sleep(f.lasting)
		p.open(f.device)
	})
}

// switchOff switches a host off for a while. In calm its peers say so.
func (w *world) switchOff(h *host, f *fault) {
	h.alone(func() {
		well := w.wellWith(f.host)
		h.end(f.how)
		time.Sleep(f.lasting)
		for _, other := range well {
			if f.calm {
				w.say(other, f.host, string(verdict.VerdictPeerDown))
			}
		}
		h.restart()
	})
}

// wellWith returns the hosts all of whose pairs with a host are ok.
func (w *world) wellWith(host string) (all []*host) {
	for _, h := range w.hosts {
		now := h.now(host)
		if len(now) > 0 && !slices.ContainsFunc(now, func(s string) bool { return s != "ok" }) {
			all = append(all, h)
		}
	}
	return all
}

// severFor loses the RDMA packets of a link or a host for a while. Those who pass it say so.
func (w *world) severFor(h *host, f *fault) {
	links := w.concerned(f)
	well := map[link][]*host{}
	for _, l := range links {
		for i := range l {
			if slices.Contains(w.wellWith(l[1-i]), w.host(l[i])) {
				well[l] = append(well[l], w.host(l[i]))
			}
		}
	}
	w.sever(links, true)
	w.isolate(f, true)
	time.Sleep(f.lasting)
	for l, hosts := range well {
		for _, host := range hosts {
			other := l[0]
			if other == host.name {
				other = l[1]
			}
			w.say(host, other, string(verdict.VerdictPath), string(verdict.VerdictOwnLink))
		}
	}
	w.isolate(f, false)
	w.sever(links, false)
}

// isolate notes that all links of a host are severed.
func (w *world) isolate(f *fault, severed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.kind == severHost {
		w.cutOff[f.host], w.connected[f.host] = severed, time.Now()
	}
}

func (w *world) double(l link, doubled bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doubled[l] = doubled
}

// lack takes a host out of another's list, or puts it back.
func (w *world) lack(p *plan, h *host, missing string, lacks bool) {
	h.mu.Lock()
	if lacks {
		h.lacks[missing]++
	} else {
		h.lacks[missing]--
	}
	without := map[string]bool{}
	for name, n := range h.lacks {
		without[name] = n > 0
	}
	l := w.list(p, without)
	h.mu.Unlock()
	h.setList(l)
}

// relist takes a host out of all lists, or puts it back, in the order of the hosts and at times of their own.
func (w *world) relist(p *plan, host string, lacks bool, within time.Duration) {
	for _, h := range w.hosts {
		time.Sleep(w.chance(max(1, within/time.Duration(len(w.hosts)))))
		w.lack(p, h, host, lacks)
	}
}

// changeKeys gives the hosts another key, one after the other. In between two of them do not talk, and in calm say why.
func (w *world) changeKeys(f *fault) {
	w.keys <- struct{}{}
	defer func() { <-w.keys }()
	w.generation++
	if w.authority != nil {
		w.authority = newAuthority(w.t)
	}
	var changed []*host
	for i, h := range w.hosts {
		h.alone(func() { w.changeKey(h) })
		changed = append(changed, h)
		time.Sleep(w.chance(max(1, f.lasting)))
		if f.calm && i == len(w.hosts)/2 {
			w.sayKey(changed)
		}
	}
}

// changeKey gives a host the newest key. A key file is read when the process starts; the files of certificates are when they have
// changed, and show once the connections are new.
func (w *world) changeKey(h *host) {
	h.writeKeys()
	p := h.running()
	switch _, isFormer := p.(*former); {
	case p == nil:
	case w.authority != nil && !isFormer:
		w.tcp.reset(w.others(h.name))
	default:
		h.end(stopped)
		time.Sleep(time.Second)
		h.restart()
	}
}

// writeKeys writes the files of a host.
func (h *host) writeKeys() {
	w := h.w
	if w.authority == nil {
		replaceFile(w.t, h.files.Key, []byte("a key of 32 bytes and more, number "+string(rune('0'+w.generation))))
		return
	}
	w.authority.issue(w.t, h.name, h.files.TLSCert, h.files.TLSKey, h.files.TLSCA)
}

// sayKey requires, after a while, that hosts with the new key and those with the old one name the key where they have not met. With
// certificates they go on with what they have met.
func (w *world) sayKey(changed []*host) {
	time.Sleep(holdsFor + time.Minute)
	for _, a := range changed {
		for _, b := range w.hosts {
			if slices.Contains(changed, b) || a.running() == nil || b.running() == nil {
				continue
			}
			want := []string{string(exchange.ReasonOf(exchange.ErrKey))}
			if w.authority != nil {
				want = append(want, string(verdict.VerdictOK))
			}
			w.say(a, b.name, want...)
			w.say(b, a.name, want...)
		}
	}
}
