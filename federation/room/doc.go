// Package room builds, checks and appends the events of rooms, inside a unit
// of the store: what users of this server do, and what other servers send.
//
// It owns one invariant: after every append a room's current state is the
// resolved state after its forward extremities, and the current state is all
// that a local event needs. So a local event is built, authorized, signed and
// appended in one unit, however many extremities the room has; what needs
// state resolution is planned outside of the write and checked again in it.
//
// It speaks no SQL, serves no HTTP and calls no other server. Signatures of
// events that others sent are verified before they come here.
package room
