// Package testserver runs real homeservers inside a test: a server in this
// process, on a temporary directory and free ports of loopback, and clients
// that talk to it over HTTP. Anyone may import it, bridges' and clients' tests
// included:
//
//	hs := testserver.New(t)
//	alice, bob := hs.Register("alice"), hs.Register("bob")
//	alice.SendToDevice("m.test", bob, `{"n":1}`)
//	hs.Crash()
//	bob.Sync().HasToDevice("m.test", `{"n":1}`)
//
// No server looks a name up or connects to another machine: made-up server names
// reach nobody.
//
// When the test ends, the database and the memory beside it are checked for
// everything that must hold, so each such test is a test of the invariants too.
package testserver
