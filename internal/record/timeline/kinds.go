package timeline

import "slices"

// kind describes the records of one kind.
type kind struct {
	name    string
	isWhole func(*Record) bool // reports whether a record has the data that its kind requires; nil: requires none
	words   func(Style, *Record) wording
	// isUrgent reports whether the record has to be written at once, because the host may go down next; nil: never.
	isUrgent func(*Record) bool
	// yields is set if any user or the network can cause any number of these records. They never displace other records in a
	// recorder.
	yields bool
}

// wording is the text of a record. The colour applies to the name.
type wording struct {
	name, detail, colour string
}

// kinds holds all kinds of records that the plugin makes, by name. It never changes.
var kinds = kindsByName(deviceKinds(), fabricKinds(), appKinds(), pluginKinds())

func kindsByName(parts ...[]kind) map[string]kind {
	all := map[string]kind{}
	for _, k := range slices.Concat(parts...) {
		all[k.name] = k
	}
	return all
}

// YieldingKinds returns the kinds whose records never displace other records in a recorder.
func YieldingKinds() (names []string) {
	for name, k := range kinds {
		if k.yields {
			names = append(names, name)
		}
	}
	return names
}

// isWhole reports whether a record has the data that its kind requires.
func (r *Record) isWhole() bool {
	is := kinds[r.Kind].isWhole
	return is == nil || is(r)
}

// isUrgent reports whether the record has to be written at once, because the host may go down next.
func (r *Record) isUrgent() bool {
	is := kinds[r.Kind].isUrgent
	return is != nil && is(r)
}

// words returns the text of a record. For a kind that this version does not know, the text is the name of the kind.
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
