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

// StoredRecord is a Record that was read from a recorder, with the position and the clock that the recorder added.
type StoredRecord struct {
	Sequence uint64 `json:"sequence"` // position in the order of all records
	BootNS   int64  `json:"boot_ns"`  // CLOCK_BOOTTIME, within BootID
	BootID   string `json:"boot_id"`
	Host     string `json:"host,omitempty"`
	Record
	// Records of the recorder itself: its start with the previous run, a sign of life, lost records, a step of the wall clock.
	Start *recorder.Start `json:"start,omitempty"`
	Alive *recorder.Alive `json:"alive,omitempty"`
	Lost  *recorder.Lost  `json:"lost,omitempty"`
	Clock *recorder.Clock `json:"clock,omitempty"`
}

// IsEnd reports whether the record is the last one of a run that ended cleanly.
func (k *StoredRecord) IsEnd() bool { return k.Kind == recorder.KindEnd }

// NewStoredRecord decodes a record of a recorder. It returns an error if the data is invalid or does not belong to the kind.
func NewStoredRecord(r *recorder.Record) (StoredRecord, error) {
	k := StoredRecord{Sequence: r.Sequence, BootNS: r.BootNS, BootID: r.BootID, Host: r.Host}
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
			return StoredRecord{}, fmt.Errorf("read record %d, %q: %w", r.Sequence, r.Kind, err)
		}
	}
	k.Schema, k.Kind, k.Device, k.Port = Schema, r.Kind, r.Device, r.Port
	makePrintable(reflect.ValueOf(&k))
	if !k.isWhole() {
		return StoredRecord{}, fmt.Errorf("read record %d: %q without its data", r.Sequence, r.Kind)
	}
	return k, nil
}

// makePrintable replaces unprintable characters in all strings of a value. A record may come
// from the directory of another host, and must not control the terminal.
func makePrintable(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(sanitize.Printable(v.String()))
		}
	case reflect.Pointer:
		makePrintable(v.Elem()) // Elem of a nil pointer is an invalid Value, which has no strings
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

// formatTime formats a time for people, in the local time zone.
func formatTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// mayCauseChange reports whether the next record may be the state change that k caused.
func (k *StoredRecord) mayCauseChange() bool {
	return k.causes(&Record{Kind: KindState, Device: k.Device, Port: k.Port, Witness: verbs.WitnessEvent})
}

// recorderWording returns the text of a record about the recorder itself.
func (k *StoredRecord) recorderWording() wording {
	switch {
	case k.Kind == recorder.KindEnd:
		return wording{"(recording ends)", "", Dim}
	case k.Start != nil && k.Start.LastSequence == 0:
		return wording{"(recording starts)", "", Dim}
	case k.Start != nil && k.Start.Clean:
		return wording{"(recording resumes)", "after a clean end at " + formatTime(k.Start.LastTime), Dim}
	case k.Start != nil:
		text := "without a clean end (killed, or the power failed); last record at " + formatTime(k.Start.LastTime)
		if k.Start.LastBootID != k.BootID {
			text += ", before this boot"
		}
		return wording{"(recording resumes)", text, yellow}
	case k.Lost != nil && k.Lost.Error != "":
		return wording{fmt.Sprintf("(%d records lost)", k.Lost.Count), k.Lost.Error, yellow}
	case k.Lost != nil:
		return wording{fmt.Sprintf("(%d records lost)", k.Lost.Count), "they came faster than the disk could write them", yellow}
	case k.Clock != nil:
		direction := "ahead"
		if k.Clock.StepNS < 0 {
			direction = "back"
		}
		return wording{"(wall clock set)", Duration(max(k.Clock.StepNS, -k.Clock.StepNS)) + " " + direction, yellow}
	}
	return wording{"(" + k.Kind + ")", "", plain}
}
