package syncer

import (
	"hearth/storage"
	"hearth/storage/matrix"
)

// How state is told. A client knows the state at its token and ends with the
// state W at the end of the span.
//
// With use_state_after it applies only what is in state_after, which is all
// that W has different from what the client knows. That is exact.
//
// Without, it applies state, and then the timeline. What the timeline ends a
// key with is then what the client ends with, so:
//   - where that is W's event, state tells what the key had at the start of the
//     timeline;
//   - where the timeline says nothing of the key (the event was filtered, may
//     not be seen, or resolution brought an older one back), state tells W's;
//   - where the timeline ends with another event than W has, one that
//     resolution decided against, nothing in state could help, since the
//     timeline is applied after it. The timeline then begins after that event,
//     and is limited: the event is found by paging.
//
// An entry that resolution removed cannot be told in either form: there is no
// event to tell. A client learns of it with the next full state.

// endings is which event a timeline ends each key of the state with.
func endings(events []storage.Event) map[storage.StateKey]storage.EventNum {
	ends := map[storage.StateKey]storage.EventNum{}
	for _, e := range events {
		if key, ok := keyOf(e); ok {
			ends[key] = e.Num
		}
	}
	return ends
}

func keyOf(e storage.Event) (storage.StateKey, bool) {
	stateKey, ok := e.StateKey()
	return storage.StateKey{Type: e.Type(), StateKey: stateKey}, ok
}

// overruled is how many events of a timeline must go so that it ends each key
// with what the state has: all up to the last that resolution decided against.
func overruled(events []storage.Event, has func(storage.StateKey) storage.EventNum) int {
	seen := map[storage.StateKey]bool{}
	for i := len(events) - 1; i >= 0; i-- {
		key, ok := keyOf(events[i])
		if !ok || seen[key] {
			continue
		}
		seen[key] = true
		if has(key) != events[i].Num {
			return i + 1
		}
	}
	return 0
}

func memberKey(u matrix.UserID) storage.StateKey {
	return storage.StateKey{Type: matrix.TypeMember, StateKey: string(u)}
}
