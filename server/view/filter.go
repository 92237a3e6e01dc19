package view

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
)

// Filter is a filter of /sync. The zero Filter lets everything pass.
// Client-Server API, "Filtering".
type Filter struct {
	Fields      *Fields // nil: all
	Federation  bool    // events in the format of servers
	Presence    EventFilter
	AccountData EventFilter // the account's own
	Room        RoomFilter
}

// RoomFilter is what a filter says of rooms.
type RoomFilter struct {
	IncludeLeave bool
	Ephemeral    RoomEventFilter
	State        RoomEventFilter
	Timeline     RoomEventFilter
	AccountData  RoomEventFilter

	rooms among[matrix.RoomID]
}

// EventFilter lets events pass by type and sender.
type EventFilter struct {
	limit   *uint32
	types   among[string] // with * for any characters
	senders among[matrix.UserID]
}

// RoomEventFilter lets events of rooms pass.
type RoomEventFilter struct {
	EventFilter
	LazyLoadMembers           bool
	IncludeRedundantMembers   bool
	UnreadThreadNotifications bool

	rooms       among[matrix.RoomID]
	containsURL *bool
}

// among is a list of what passes and one of what does not, which wins.
// A nil list of what passes is everything.
type among[T ~string] struct{ in, out []T }

func (a among[T]) has(s T) bool {
	return (a.in == nil || slices.Contains(a.in, s)) && !slices.Contains(a.out, s)
}

// Allows tells whether an event of this type and sender passes.
func (f *EventFilter) Allows(typ string, sender matrix.UserID) bool {
	return f.AllowsType(typ) && f.senders.has(sender)
}

// AllowsType tells whether an event of this type may pass, whoever sent it.
func (f *EventFilter) AllowsType(typ string) bool {
	match := func(pattern string) bool { return matchType(pattern, typ) }
	return (f.types.in == nil || slices.ContainsFunc(f.types.in, match)) && !slices.ContainsFunc(f.types.out, match)
}

// Limit is how many events the filter asks for: by itself usual, and never more
// than most.
func (f *EventFilter) Limit(usual, most int) int {
	if f.limit == nil {
		return min(usual, most)
	}
	return int(min(int64(*f.limit), int64(most)))
}

// AllowsRoom tells whether anything of the room passes.
func (f *RoomFilter) AllowsRoom(room matrix.RoomID) bool { return f.rooms.has(room) }

// AllowsRoom tells whether anything of the room passes.
func (f *RoomEventFilter) AllowsRoom(room matrix.RoomID) bool { return f.rooms.has(room) }

// AllowsEvent tells whether an event of a room passes.
func (f *RoomEventFilter) AllowsEvent(e storage.Event) bool {
	return f.Allows(e.Type(), e.Sender()) && f.rooms.has(e.RoomID()) &&
		(f.containsURL == nil || *f.containsURL == containsURL(e))
}

// Apply is those of the events that pass, in their order and in their place.
func (f *RoomEventFilter) Apply(events []storage.Event) []storage.Event {
	return slices.DeleteFunc(events, func(e storage.Event) bool { return !f.AllowsEvent(e) })
}

func containsURL(e storage.Event) bool {
	var c struct {
		URL jsontext.Value `json:"url"`
	}
	return e.DecodeContent(&c) == nil && c.URL != nil
}

// matchType matches a type against a pattern in which * is any characters.
func matchType(pattern, typ string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == typ
	}
	typ, ok := strings.CutPrefix(typ, first)
	if !ok {
		return false
	}
	for {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(typ, part)
		}
		i := strings.Index(typ, part)
		if i < 0 {
			return false
		}
		typ, rest = typ[i+len(part):], more
	}
}

type filterShape struct {
	Fields   *[]string   `json:"event_fields"`
	Format   string      `json:"event_format"`
	Presence EventFilter `json:"presence"`
	Account  EventFilter `json:"account_data"`
	Room     struct {
		NotRooms     []matrix.RoomID  `json:"not_rooms"`
		Rooms        *[]matrix.RoomID `json:"rooms"`
		IncludeLeave bool             `json:"include_leave"`
		Ephemeral    RoomEventFilter  `json:"ephemeral"`
		State        RoomEventFilter  `json:"state"`
		Timeline     RoomEventFilter  `json:"timeline"`
		Account      RoomEventFilter  `json:"account_data"`
	} `json:"room"`
}

type eventFilterShape struct {
	Limit      *uint32          `json:"limit"`
	NotSenders []matrix.UserID  `json:"not_senders"`
	NotTypes   []string         `json:"not_types"`
	Senders    *[]matrix.UserID `json:"senders"`
	Types      *[]string        `json:"types"`
}

type roomEventFilterShape struct {
	eventFilterShape
	ThreadCounts bool             `json:"unread_thread_notifications"`
	Lazy         bool             `json:"lazy_load_members"`
	Redundant    bool             `json:"include_redundant_members"`
	NotRooms     []matrix.RoomID  `json:"not_rooms"`
	Rooms        *[]matrix.RoomID `json:"rooms"`
	ContainsURL  *bool            `json:"contains_url"`
}

// UnmarshalJSON implements json.Unmarshaler. Keys that are not known pass.
func (f *Filter) UnmarshalJSON(b []byte) error {
	var in filterShape
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	if in.Format != "" && in.Format != "client" && in.Format != "federation" {
		return matrix.Errorf(matrix.BadJSON, "event_format is neither client nor federation")
	}
	*f = Filter{
		Federation: in.Format == "federation", Presence: in.Presence, AccountData: in.Account,
		Room: RoomFilter{
			IncludeLeave: in.Room.IncludeLeave, Ephemeral: in.Room.Ephemeral, State: in.Room.State,
			Timeline: in.Room.Timeline, AccountData: in.Room.Account,
			rooms: among[matrix.RoomID]{listed(in.Room.Rooms), in.Room.NotRooms},
		},
	}
	if in.Fields != nil {
		f.Fields = NewFields(*in.Fields)
	}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *EventFilter) UnmarshalJSON(b []byte) error {
	var in eventFilterShape
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*f = in.compile()
	return nil
}

func (in eventFilterShape) compile() EventFilter {
	return EventFilter{
		limit: in.Limit, types: among[string]{listed(in.Types), in.NotTypes},
		senders: among[matrix.UserID]{listed(in.Senders), in.NotSenders},
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *RoomEventFilter) UnmarshalJSON(b []byte) error {
	var in roomEventFilterShape
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*f = RoomEventFilter{
		EventFilter: in.compile(), LazyLoadMembers: in.Lazy, IncludeRedundantMembers: in.Redundant,
		UnreadThreadNotifications: in.ThreadCounts,
		rooms:                     among[matrix.RoomID]{listed(in.Rooms), in.NotRooms},
		containsURL:               in.ContainsURL,
	}
	return nil
}

// listed tells a list that is there and empty, which lets nothing pass, from
// one that is not there.
func listed[T any](list *[]T) []T {
	switch {
	case list == nil:
		return nil
	case *list == nil:
		return []T{}
	}
	return *list
}
