package inbox

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
)

// envelope is what surrounds a message in a sync response:
// {"content":…,"sender":…,"type":…} and a comma.
const envelope = int64(len(`{"content":,"sender":,"type":},`))

// everyDevice stands for all devices of a user.
const everyDevice = "*"

// Enqueue puts messages into the inboxes of local devices, as part of tx.
// Client-Server API, "Send-to-Device messaging".
//
// "*" is every device the user has now, the sender's own included; a device
// named beside it gets its own content. Users and devices that do not exist get
// nothing, silently. Where an inbox would exceed its limits, room is made first.
// A message that no inbox could ever hold is M_TOO_LARGE.
func (b *Inbox) Enqueue(tx *storage.Tx, from matrix.UserID, eventType string, local Messages) error {
	parcels, err := address(tx, local)
	if err != nil || len(parcels) == 0 {
		return err
	}
	in, err := b.sender(tx, from, eventType)
	if err != nil {
		return err
	}
	if err := b.makeRoom(tx, in, parcels); err != nil {
		return fmt.Errorf("make room: %w", err)
	}
	return b.insert(tx, from, eventType, in, parcels)
}

// parcel is one content and the devices it goes to.
type parcel struct {
	content jsontext.Value
	devices []int64
}

// address finds the devices that are meant and puts those that get equal
// contents together: they cost one statement.
func address(tx *storage.Tx, local Messages) ([]parcel, error) {
	to, err := tx.Recipients(slices.Sorted(maps.Keys(local)))
	if err != nil {
		return nil, err
	}
	var parcels []parcel
	known := map[string]int{} // content to index of parcels
	for _, r := range to {
		content, ok := local[r.User][string(r.ID)]
		if !ok || r.ID == everyDevice {
			content, ok = local[r.User][everyDevice]
		}
		if !ok {
			continue
		}
		i, ok := known[string(content)]
		if !ok {
			i = len(parcels)
			known[string(content)] = i
			parcels = append(parcels, parcel{content: content})
		}
		parcels[i].devices = append(parcels[i].devices, r.Device)
	}
	return parcels, nil
}

// incoming is what weighs of a request: who sends, and what a message takes
// beside its content.
type incoming struct {
	sender, group int64
	overhead      int64
}

func (b *Inbox) sender(tx *storage.Tx, from matrix.UserID, eventType string) (incoming, error) {
	num, grp, err := tx.Sender(from, GroupOf(from.Server(), tx.ServerName()))
	if err != nil {
		return incoming{}, err
	}
	size := envelope
	for _, s := range []string{string(from), eventType} {
		quoted, err := jsontext.AppendQuote(nil, s)
		if err != nil {
			return incoming{}, fmt.Errorf("to-device type: %w", err)
		}
		size += int64(len(quoted))
	}
	return incoming{sender: num, group: grp, overhead: size}, nil
}

func (b *Inbox) insert(tx *storage.Tx, from matrix.UserID, eventType string, in incoming, parcels []parcel) error {
	var all []arrival
	for _, p := range parcels {
		size := in.overhead + int64(len(p.content))
		m := storage.NewToDevice{Sender: in.sender, Type: eventType, Content: p.content, Bytes: size}
		first, err := tx.AddToDevice(m, p.devices)
		if err != nil {
			return err
		}
		all = append(all, arrival{
			devices: p.devices,
			first:   first,
			bytes:   size,
			Message: Message{Sender: from, Type: eventType, Content: p.content},
		})
	}
	label := tx.NextPos()
	tx.AfterCommit(func() { b.mirror.arrived(label, all) })
	tx.News(storage.News{Devices: devicesOf(parcels)})
	return nil
}

func devicesOf(parcels []parcel) []int64 {
	if len(parcels) == 1 {
		return parcels[0].devices
	}
	var all []int64
	for _, p := range parcels {
		all = append(all, p.devices...)
	}
	return all
}
