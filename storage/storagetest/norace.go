//go:build !race

package storagetest

// Raced tells that the race detector is on.
const Raced = false
