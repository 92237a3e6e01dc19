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
	types   struct{ in, out patterns }
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

// among is what passes and what does not, which wins. Where in is nil, all passes.
// Each event of each room is asked for, so that long lists must not cost more.
type among[T ~string] struct{ in, out map[T]struct{} }

func newAmong[T ~string](in *[]T, out []T) among[T] {
	var a among[T]
	if in != nil {
		a.in = setOf(*in)
	}
	if len(out) > 0 {
		a.out = setOf(out)
	}
	return a
}

func setOf[T ~string](list []T) map[T]struct{} {
	set := make(map[T]struct{}, len(list))
	for _, s := range list {
		set[s] = struct{}{}
	}
	return set
}

func (a among[T]) has(s T) bool {
	_, in := a.in[s]
	_, out := a.out[s]
	return (a.in == nil || in) && !out
}

// patterns is a list of types, in which * is any characters.
type patterns struct {
	exact map[string]struct{} // nil: there is no list
	wild  []string
}

// maxWild bounds the patterns with a * in one list. Each is tried on each event.
const maxWild = 100

func newPatterns(list []string) (patterns, error) {
	p := patterns{exact: map[string]struct{}{}}
	for _, s := range list {
		if !strings.Contains(s, "*") {
			p.exact[s] = struct{}{}
			continue
		}
		if len(p.wild) == maxWild {
			return p, matrix.Errorf(matrix.BadJSON, "more than %d types with a *", maxWild)
		}
		p.wild = append(p.wild, fewerStars(s))
	}
	return p, nil
}

// fewerStars writes one * for several in a row, which mean the same.
func fewerStars(s string) string {
	return string(slices.CompactFunc([]byte(s), func(a, b byte) bool { return a == '*' && b == '*' }))
}

func (p patterns) match(typ string) bool {
	_, ok := p.exact[typ]
	return ok || slices.ContainsFunc(p.wild, func(s string) bool { return matchType(s, typ) })
}

// Allows tells whether an event of this type and sender passes.
func (f *EventFilter) Allows(typ string, sender matrix.UserID) bool {
	return f.AllowsType(typ) && f.senders.has(sender)
}

// AllowsType tells whether an event of this type may pass, whoever sent it.
func (f *EventFilter) AllowsType(typ string) bool {
	return (f.types.in.exact == nil || f.types.in.match(typ)) && !f.types.out.match(typ)
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
			rooms: newAmong(in.Room.Rooms, in.Room.NotRooms),
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
	var err error
	*f, err = in.compile()
	return err
}

func (in eventFilterShape) compile() (f EventFilter, err error) {
	f = EventFilter{limit: in.Limit, senders: newAmong(in.Senders, in.NotSenders)}
	if in.Types != nil {
		if f.types.in, err = newPatterns(*in.Types); err != nil {
			return f, err
		}
	}
	f.types.out, err = newPatterns(in.NotTypes)
	return f, err
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *RoomEventFilter) UnmarshalJSON(b []byte) error {
	var in roomEventFilterShape
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	base, err := in.compile()
	*f = RoomEventFilter{
		EventFilter: base, LazyLoadMembers: in.Lazy, IncludeRedundantMembers: in.Redundant,
		UnreadThreadNotifications: in.ThreadCounts,
		rooms:                     newAmong(in.Rooms, in.NotRooms),
		containsURL:               in.ContainsURL,
	}
	return err
}
