//go:build !race

package storagetest

// raced tells that the race detector is on.
const raced = false
