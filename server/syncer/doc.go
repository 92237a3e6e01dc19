// Package syncer builds /sync responses and waits for something to tell. It
// owns the sync token. It reads through snapshots only, writes nothing, and
// speaks no HTTP: server/clientapi parses the request.
//
// The order of steps is what makes it lose nothing: subscribe, then apply what
// the token acknowledges, then read, then wait. A commit after the read finds
// the subscription; one before it is in the snapshot.
package syncer
