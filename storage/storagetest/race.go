//go:build race

package storagetest

// Raced tells that the race detector is on, which makes everything about ten
// times slower.
const Raced = true
