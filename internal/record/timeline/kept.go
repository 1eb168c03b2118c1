package timeline

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/record/recorder"
	"rdma_events/internal/sys/sanitize"
)

// Kept is a record that was read from a recorder.
type Kept struct {
	Sequence uint64 `json:"sequence"` // orders all records
	BootNS   int64  `json:"boot_ns"`  // CLOCK_BOOTTIME, within BootID
	BootID   string `json:"boot_id"`
	Host     string `json:"host,omitempty"`
	Record
	// Of the recorder itself: the run before, that it runs, records that were lost, a step of the clock.
	Start *recorder.Start `json:"start,omitempty"`
	Alive *recorder.Alive `json:"alive,omitempty"`
	Lost  *recorder.Lost  `json:"lost,omitempty"`
	Clock *recorder.Clock `json:"clock,omitempty"`
}

// IsEnd reports whether the record is the last one of a run that ended in order.
func (k *Kept) IsEnd() bool { return k.Kind == recorder.KindEnd }

// NewKept returns what a recorder has kept.
func NewKept(r *recorder.Record) (Kept, error) {
	k := Kept{Sequence: r.Sequence, BootNS: r.BootNS, BootID: r.BootID, Host: r.Host}
	k.Time = r.Time
	into := any(&k.Record)
	switch r.Kind {
	case recorder.KindStart:
		k.Start = new(recorder.Start)
		into = k.Start
	case recorder.KindAlive:
		k.Alive = new(recorder.Alive)
		into = k.Alive
	case recorder.KindLost:
		k.Lost = new(recorder.Lost)
		into = k.Lost
	case recorder.KindClock:
		k.Clock = new(recorder.Clock)
		into = k.Clock
	}
	if len(r.Data) > 0 {
		if err := json.Unmarshal(r.Data, into); err != nil {
			return Kept{}, fmt.Errorf("read record %d, %q: %w", r.Sequence, r.Kind, err)
		}
	}
	k.Schema, k.Kind, k.Device, k.Port = Schema, r.Kind, r.Device, r.Port
	makePrintable(reflect.ValueOf(&k))
	if !k.isWhole() {
		return Kept{}, fmt.Errorf("read record %d: %q without its data", r.Sequence, r.Kind)
	}
	return k, nil
}

// makePrintable replaces what would not be shown as it is, in all texts of a value. A record
// may come from the directory of another host, which a terminal must not obey.
func makePrintable(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(sanitize.Printable(v.String()))
		}
	case reflect.Pointer:
		makePrintable(v.Elem()) // of a nil pointer: an invalid value, which has nothing
	case reflect.Struct:
		for i := range v.NumField() {
			makePrintable(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			makePrintable(v.Index(i))
		}
	}
}

// clockOf writes a time for people.
func clockOf(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// mayJoin reports whether the next record may be the change of state that k caused.
func (k *Kept) mayJoin() bool {
	return k.causes(&Record{Kind: KindState, Device: k.Device, Port: k.Port, Witness: verbs.WitnessEvent})
}

// own returns the text of a record of the recorder itself.
func (k *Kept) own() wording {
	switch {
	case k.Kind == recorder.KindEnd:
		return wording{"(recording ends)", "", Dim}
	case k.Start != nil && k.Start.LastSequence == 0:
		return wording{"(recording begins)", "", Dim}
	case k.Start != nil && k.Start.Clean:
		return wording{"(recording goes on)", "after an end in order at " + clockOf(k.Start.LastTime), Dim}
	case k.Start != nil:
		text := "without an end: killed, or the power failed; the last record is of " + clockOf(k.Start.LastTime)
		if k.Start.LastBootID != k.BootID {
			text += ", before this boot"
		}
		return wording{"(recording goes on)", text, yellow}
	case k.Lost != nil && k.Lost.Error != "":
		return wording{fmt.Sprintf("(%d records lost)", k.Lost.Count), k.Lost.Error, yellow}
	case k.Lost != nil:
		return wording{fmt.Sprintf("(%d records lost)", k.Lost.Count), "they came faster than the disk took them", yellow}
	case k.Clock != nil:
		direction := "ahead"
		if k.Clock.StepNS < 0 {
			direction = "back"
		}
		return wording{"(wall clock set)", Duration(max(k.Clock.StepNS, -k.Clock.StepNS)) + " " + direction, yellow}
	}
	return wording{"(" + k.Kind + ")", "", plain}
}
