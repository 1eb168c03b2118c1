package timeline

import "slices"

// kind describes the records of one kind.
type kind struct {
	name    string
	isWhole func(*Record) bool // reports whether a record has the data that the kind needs; nil: it needs none
	words   func(Style, *Record) wording
	// isUrgent reports whether the host may go down next; nil: never.
	isUrgent func(*Record) bool
	// yields is set if any user can cause as many records as he likes, or the network can: they displace no others in a recorder.
	yields bool
}

// wording is what happened, details of it, and the colour of the former.
type wording struct {
	name, detail, colour string
}

// kinds are all kinds of records that the plugin makes, by their names. Nothing changes them.
var kinds = kindsByName(deviceKinds(), fabricKinds(), appKinds(), pluginKinds())

func kindsByName(parts ...[]kind) map[string]kind {
	all := map[string]kind{}
	for _, k := range slices.Concat(parts...) {
		all[k.name] = k
	}
	return all
}

// Yielding returns the kinds whose records displace no others in a recorder.
func Yielding() (names []string) {
	for name, k := range kinds {
		if k.yields {
			names = append(names, name)
		}
	}
	return names
}

// isWhole reports whether a record has what its kind needs.
func (r *Record) isWhole() bool {
	is := kinds[r.Kind].isWhole
	return is == nil || is(r)
}

// isUrgent reports whether the host may go down next.
func (r *Record) isUrgent() bool {
	is := kinds[r.Kind].isUrgent
	return is != nil && is(r)
}

// words returns what happened. A kind that this version does not know is named.
func (s Style) words(r *Record) wording {
	w := wording{name: r.Event}
	if of := kinds[r.Kind].words; of != nil {
		w = of(s, r)
	}
	if w.name == "" {
		w.name = "(" + r.Kind + ")"
	}
	return w
}
