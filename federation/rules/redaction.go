package rules

import "hearth/storage/matrix"

// redactionEvent is the rule of m.room.redaction in room versions 1 and 2.
func (c *check) redactionEvent(power int64) error {
	if power >= c.levels.RedactLevel() {
		return nil
	}
	// An ID without a server is nobody's own.
	if own := c.ev.ID().Server(); own != "" && c.ev.Redacts().Server() == own {
		return nil
	}
	return c.refuse(RedactionLevel)
}

// RedactionApplies tells whether a redaction that was accepted takes effect on
// the event it names, in the state before the redaction. In room versions 1
// and 2 it does whenever it was accepted; later the redaction is an event like
// any other, and this decides. Room Version 3, "Handling redactions".
func RedactionApplies(redaction, target *matrix.Event, state AuthState) bool {
	v := redaction.Version()
	if redaction.Redacts() != target.ID() || redaction.RoomID() != target.RoomID() {
		return false
	}
	if v.RedactionRule || redaction.Sender().Server() == target.Sender().Server() {
		return true
	}
	return Power(v, state, redaction.Sender()) >= levelsIn(state).RedactLevel()
}
