//go:build race

package storagetest

// raced tells that the race detector is on, which makes everything about ten
// times slower.
const raced = true
