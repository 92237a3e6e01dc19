// Package matrix is Hearth's vocabulary: identifiers, error codes, room
// versions, events, canonical JSON, redaction, hashes and signatures. It is
// pure: no I/O, no clock, no logger, no SQL. Stored rows are made of it, so it
// lies below everything else.
package matrix
