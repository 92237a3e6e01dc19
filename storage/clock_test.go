package storage_test

import (
	"context"
	"testing"
	"time"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// machine is a machine's clocks, in the test's hands.
type machine struct {
	wall time.Time
	mono time.Duration
}

// run lets the machine work for d.
func (m *machine) run(d time.Duration) { m.wall, m.mono = m.wall.Add(d), m.mono+d }

func (m *machine) option(o *storage.Options) {
	o.Now = func() time.Time { return m.wall }
	boot := m.mono
	o.Mono = func() time.Duration { return m.mono - boot }
}

func age(t *testing.T, s *storage.Store) time.Duration {
	t.Helper()
	var ms int64
	err := s.Read(context.Background(), "age", func(rx *storage.Rx) error {
		ms = rx.Clock()
		if !rx.Now.Equal(rx.Now) {
			t.Error("no wall clock")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ms) * time.Millisecond
}

const day = 24 * time.Hour

// TestAgeClock drives the clock through what machines without a battery, with
// a wrong battery, and with a lid do to it. Each step says how much the age
// clock may move.
func TestAgeClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	restart := func(m *machine, wall time.Time) { m.wall, m.mono = wall, 0 }
	steps := []struct {
		name    string
		do      func(*machine)
		restart bool
		moved   time.Duration
	}{
		{"an hour passes", func(m *machine) { m.run(time.Hour) }, false, time.Hour},
		{"the network tells the time", func(m *machine) { m.wall = now }, false, 0},
		{"a day passes", func(m *machine) { m.run(day) }, false, day},
		{"the clock is set back a year", func(m *machine) { m.wall = m.wall.Add(-365 * day) }, false, 0},
		{"and right again", func(m *machine) { m.wall = m.wall.Add(365 * day) }, false, 0},
		{"it sleeps for a month", func(m *machine) { m.wall = m.wall.Add(30 * day) }, false, 0},
		{"it restarts at once", func(m *machine) { restart(m, m.wall) }, true, 0},
		{"it was off for three days", func(m *machine) { restart(m, m.wall.Add(3*day)) }, true, 3 * day},
		{"it was off for a year", func(m *machine) { restart(m, m.wall.Add(365*day)) }, true, 7 * day},
		{"it starts in 1970", func(m *machine) { restart(m, time.Unix(5, 0)) }, true, 0},
		{"a minute passes", func(m *machine) { m.run(time.Minute) }, false, time.Minute},
		{"the network tells the time again", func(m *machine) { m.wall = now.Add(400 * day) }, false, 0},
		{"it starts in 1970 once more", func(m *machine) { restart(m, time.Unix(5, 0)) }, true, 0},
		{"it starts in 2100", func(m *machine) { restart(m, now.Add(75*365*day)) }, true, 7 * day},
		{"and is back in the present", func(m *machine) { restart(m, now.Add(401*day)) }, true, 0},
	}
	dir := t.TempDir()
	m := &machine{wall: time.Unix(3, 0)}
	s := storagetest.OpenDir(t, dir, m.option)
	before := age(t, s)
	if before <= 0 {
		t.Errorf("a new file's clock stands at %s", before)
	}
	for _, step := range steps {
		if step.restart {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			step.do(m)
			s = storagetest.OpenDir(t, dir, m.option)
		} else {
			step.do(m)
		}
		got := age(t, s)
		if got-before != step.moved {
			t.Errorf("%s: the age clock moved by %s, want %s", step.name, got-before, step.moved)
		}
		before = got
	}
}

// TestAgeClockSurvivesACrash loses at most what ran since the last batch.
func TestAgeClockSurvivesACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := &machine{wall: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
	s := storagetest.OpenDir(t, dir, m.option)
	before := age(t, s)
	m.run(20 * day)
	put(t, s, 0)
	if err := s.Abort(); err != nil {
		t.Fatal(err)
	}
	m.mono = 0
	s = storagetest.OpenDir(t, dir, m.option)
	if got := age(t, s) - before; got != 20*day {
		t.Errorf("the age clock moved by %s, want 20 days", got)
	}
}
