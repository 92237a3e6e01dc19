// Package rules decides which events a room accepts and what its state is:
// event authorization, the selection of auth events, and state resolution v1,
// v2 and v2.1, for room versions 1 to 12.
//
// It is pure: no I/O, no clock, no logger, no SQL. State and events come from
// the caller through [AuthState] and [Source]. Signatures by servers are
// verified before (they need keys); the only signatures verified here are those
// of third-party invites, whose keys are in the room's state.
//
// The rules follow the room version pages of the specification, merged into one
// outline (see [Rule]); what differs between versions asks the capability table
// [matrix.Version], never a version's name.
package rules
