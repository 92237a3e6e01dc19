// Package syncer builds /sync responses and waits for something to tell. It
// owns the sync token. It reads through snapshots only, writes nothing, and
// speaks no HTTP: server/clientapi parses the request.
//
// The order of steps is what makes it lose nothing: subscribe, then apply what
// the token acknowledges, then read, then wait. A commit after the read finds
// the subscription; one before it is in the snapshot. What a waiting poll found
// nothing in is not read again.
//
// What is told of a room is a span of its stream, up to the snapshot or to where
// the user left (span.go); of that the timeline (timeline.go), and the state
// that belongs to it (state.go, sections.go).
package syncer
