// Package remote finds and calls other homeservers: server discovery, request
// signatures, and the requests themselves. It is the only package that dials
// another server. It keeps nothing on disk, decides nothing about what it
// carries, and tries each request once: whoever asks owns the retry.
package remote
