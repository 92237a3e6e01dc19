package outbox

import "hearth/storage/matrix"

// maxProven bounds how many destinations are known to be well.
const maxProven = 10_000

// lines is who waits for a place, each in the order they came: destinations that
// took what was sent last, and guests, who failed or were never sent anything.
// Names are free, and those who have them may take a minute to answer nothing:
// so guests get half of the places, and wait for each other only.
type lines struct {
	proven, guests []matrix.ServerName
	guestNext      bool
}

func (l *lines) push(name matrix.ServerName, proven bool) {
	if proven {
		l.proven = append(l.proven, name)
	} else {
		l.guests = append(l.guests, name)
	}
}

// pop takes from both in turn, from the guests only where there is a place for one.
func (l *lines) pop(guest bool) (name matrix.ServerName, proven, ok bool) {
	from := &l.proven
	if guest = guest && len(l.guests) > 0; guest && (l.guestNext || len(l.proven) == 0) {
		from = &l.guests
	}
	if len(*from) == 0 {
		return "", false, false
	}
	name, *from = (*from)[0], (*from)[1:]
	proven = from == &l.proven
	l.guestNext = proven
	return name, proven, true
}
