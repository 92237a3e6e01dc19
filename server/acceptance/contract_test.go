package acceptance

import (
	"testing"
)

// TestContract holds the send-to-device contract: one subtest per promise, over
// HTTP, against a real server on a real file. T10 comes with federation.
func TestContract(t *testing.T) {
	t.Parallel()
	for _, promise := range []struct {
		name string
		test func(*testing.T)
	}{
		{"T1", testDurable},
		{"T2", testFailureLeavesNothing},
		{"T3", testOneUnit},
		{"T4", testRetransmission},
		{"T5", testExactlyOnce},
		{"T6", testCutResponse},
		{"T7", testWildcard},
		{"T8", testMessageIDs},
		{"T9", testRemoteSplit},
		{"T11", testFederationDisabled},
		{"T12", testBoundedInbox},
		{"T13", testPositionsRise},
		{"T14", testMirror},
		{"T15", testDeviceDeleted},
	} {
		t.Run(promise.name, func(t *testing.T) {
			t.Parallel()
			promise.test(t)
		})
	}
}
