package report

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// newTextPart returns a part with one file.
func newTextPart(name string, stage int, file func(context.Context) (File, error)) Part {
	return newFilePart(Description{name, "a part"}, stage, time.Second, file)
}

// resultTexts returns each file's name, with its content or the reason why it is missing.
func resultTexts(made []Result) []string {
	var all []string
	for i := range made {
		m := &made[i]
		switch {
		case m.Missing != nil:
			all = append(all, m.Name+"! "+m.Missing.Error())
		default:
			all = append(all, fmt.Sprintf("%s %s", m.Name, m.Data))
		}
	}
	return all
}

func fileWith(content string) func(context.Context) (File, error) {
	return func(context.Context) (File, error) { return File{Data: Text(content)}, nil }
}

func TestAPartThatFailsOrPanicsLosesNoOther(t *testing.T) {
	made := Collect(t.Context(), []Part{
		newTextPart("a", stageRest, fileWith("1")),
		newTextPart("b", stageRest, func(context.Context) (File, error) { return File{}, errors.New("no luck") }),
		newTextPart("c", stageRest, func(context.Context) (File, error) { panic("index of nothing") }),
		newTextPart("d", stageRest, func(context.Context) (File, error) { return File{}, nil }),
		newTextPart("e", stageDevices, fileWith("2")),
	}, time.Now)
	require.Equal(t, []string{"a 1", "b! no luck", "c! panic: index of nothing", "d! it was not made", "e 2"}, resultTexts(made))
}

func TestAPartThatHangsIsLeftBehindAndTheOthersAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		begin := time.Now()
		made := Collect(t.Context(), []Part{
			newTextPart("hangs", stageDevices, func(context.Context) (File, error) { <-release; return File{Data: Text("late")}, nil }),
			newTextPart("stops", stageDevices, func(ctx context.Context) (File, error) {
				<-ctx.Done()
				return File{Data: Text("half"), Lacks: []string{"the other half"}}, nil
			}),
			newTextPart("next", stageRest, fileWith("1")),
		}, time.Now)
		require.Equal(t, []string{"hangs! it did not end in time, and is left behind: its limit is 1s", "stops half", "next 1"}, resultTexts(made))
		require.Equal(t, time.Second+grace, time.Since(begin))
		require.Equal(t, []string{"hangs: it did not end in time, and is left behind: its limit is 1s", "stops: the other half"}, MissingLines(made))
		close(release)
	})
}

func TestStagesFollowEachOtherAndTheFilesKeepTheirOrder(t *testing.T) {
	var stage atomic.Int32
	at := func(want int32) func(context.Context) (File, error) {
		return func(context.Context) (File, error) {
			if now := stage.Swap(want); now > want {
				return File{}, fmt.Errorf("after stage %d", now)
			}
			return File{Data: Text("ok")}, nil
		}
	}
	made := Collect(t.Context(), []Part{
		newTextPart("a", stageDoctor, at(2)), newTextPart("b", stageDevices, at(0)), newTextPart("c", stageRest, at(1)), newTextPart("d", stageDevices, at(0)),
	}, time.Now)
	require.Equal(t, []string{"a ok", "b ok", "c ok", "d ok"}, resultTexts(made))
}

func TestSoManyPartsOfAStageAreMadeAtOnceAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		var parts []Part
		for i := range 3 * maxParallel {
			parts = append(parts, newTextPart(fmt.Sprint(i), stageDevices, func(context.Context) (File, error) {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(500 * time.Millisecond)
				now.Add(-1)
				return File{Data: Text("ok")}, nil
			}))
		}
		begin := time.Now()
		require.Empty(t, MissingLines(Collect(t.Context(), parts, time.Now)))
		require.Equal(t, int32(maxParallel), most.Load())
		require.Equal(t, 1500*time.Millisecond, time.Since(begin))
	})
}

func TestAfterTheEndOfTheContextNothingIsMade(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	made := Collect(ctx, []Part{
		newTextPart("a", stageDevices, func(context.Context) (File, error) { cancel(); return File{Data: Text("1")}, nil }),
		newTextPart("b", stageRest, fileWith("2")),
	}, time.Now)
	require.Equal(t, "b! context canceled", resultTexts(made)[1])
}

func TestSeveralFilesOfAPartAreMissingForOneReason(t *testing.T) {
	made := Collect(t.Context(), []Part{{
		Files: []Description{{"a", ""}, {"b", ""}}, Timeout: time.Second,
		Make: func(context.Context) (map[string]File, error) { return nil, errors.New("no luck") },
	}, {
		Files: []Description{{"c", ""}, {"d", ""}}, Timeout: time.Second,
		Make: func(context.Context) (map[string]File, error) {
			return map[string]File{"c": {Data: Text("1")}}, errors.New("half")
		},
	}}, time.Now)
	require.Equal(t, []string{"a: no luck", "d: half"}, MissingLines(made))
	require.Equal(t, []string{"as a"}, made[1].missingLines())
}

func TestATextFromOutsideIsOneLineThatATerminalShows(t *testing.T) {
	require.Equal(t, "a b?[31m c", OneLine("\n a\r\nb\x1b[31m\t c \n"))
	require.Equal(t, "a??\ufffd", OneLine("a\x00\u009b\xff"))
	long := OneLine(string(make([]byte, 10_000)))
	require.Len(t, long, 403)
}

// Output of a device or about a damaged directory must not be longer than a person can read.
func TestOfManyLinesTheFirstAreShown(t *testing.T) {
	many := make([]string, 1000)
	made := Collect(t.Context(), []Part{newTextPart("a", stageRest, func(context.Context) (File, error) {
		return File{Data: Text("1"), Lacks: many, Notes: many, Removed: many}, nil
	})}, time.Now)
	for _, lines := range [][]string{made[0].Lacks, made[0].Notes, made[0].Removed} {
		require.Len(t, lines, 51)
		require.Equal(t, "and 950 more", lines[50])
	}
}

func TestPartsThatAreLateAreLeftBehindAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		part := func(name string, hangs bool) Part {
			return Part{Files: []Description{{Name: name}}, Timeout: time.Minute, Make: func(ctx context.Context) (map[string]File, error) {
				if hangs {
					<-release
				}
				return map[string]File{name: {Data: Text(name)}}, nil
			}}
		}
		parts := []Part{part("timeline", false), part("hangs", true), part("doctor", false)}
		parts[2].Stage = stageDoctor
		ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Second, ErrLate)
		defer cancel()
		began := time.Now()
		made := Collect(ctx, parts, time.Now)
		require.Equal(t, 4*time.Second+lateGrace, time.Since(began))
		require.NoError(t, made[0].Missing)
		require.ErrorIs(t, made[1].Missing, ErrLate)
		require.ErrorIs(t, made[2].Missing, ErrLate)
		require.Zero(t, Hurry(parts)[2].Stage)
	})
}
