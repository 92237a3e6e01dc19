package acceptance

import (
	"testing"
)

// TestContract holds the send-to-device contract: one subtest per promise, over
// HTTP, against real servers on real files. T8 to T11 hold of what is queued,
// and end to end between servers that federate over TLS.
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
		{"T8", both(testMessageIDs, testSameIDAtEachAttempt)},
		{"T9", both(testRemoteSplit, testRemoteOrder)},
		{"T10", both(testReplays, testReceiverCannotWrite)},
		{"T11", both(testFederationDisabled, testNoFederation)},
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

// both are the two halves of a promise, at the same time.
func both(one, other func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		for _, half := range []struct {
			name string
			test func(*testing.T)
		}{{"1", one}, {"2", other}} {
			t.Run(half.name, func(t *testing.T) {
				t.Parallel()
				half.test(t)
			})
		}
	}
}
