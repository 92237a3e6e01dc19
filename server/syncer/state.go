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
//     resolution decided against or one whose successor may not be seen, nothing
//     in state could help, since the timeline is applied after it. The timeline
//     then begins after that event, and is limited: it is found by paging. But
//     where it is the client's own filter that hides the successor, the timeline
//     stays whole: who wants no events of somebody must not lose others for it.
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

// overruled is how many events of a timeline must go so that it ends no key
// with an event that is wrong: all up to the last such event.
func overruled(events []storage.Event, wrong map[storage.EventNum]bool) int {
	for i := len(events) - 1; i >= 0; i-- {
		if wrong[events[i].Num] {
			return i + 1
		}
	}
	return 0
}

func memberKey(u matrix.UserID) storage.StateKey {
	return storage.StateKey{Type: matrix.TypeMember, StateKey: string(u)}
}
