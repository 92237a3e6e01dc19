-- destinations: other servers with something queued or a record of failing.
-- Owner: outbox. Sweeper: outbox, servers with an empty queue and no failure to
-- remember. Bound: what their queues hold is bounded, see outbox_shares.
CREATE TABLE destinations (
  num             INTEGER PRIMARY KEY AUTOINCREMENT,
  name            TEXT    NOT NULL UNIQUE,
  items           INTEGER NOT NULL DEFAULT 0,  -- rows of outbox, kept by triggers
  bytes           INTEGER NOT NULL DEFAULT 0,
  failures        INTEGER NOT NULL DEFAULT 0,  -- in a row
  failing_clock   INTEGER,                     -- age clock: since when; null: not failing
  retry_ms        INTEGER,                     -- wall clock: not before; null: at once
  success_ms      INTEGER,                     -- wall clock: last 2xx; null: never
  last_error      TEXT,
  batch_pdu       INTEGER,                     -- last PDU and last EDU of the transaction
  batch_edu       INTEGER                      -- that was begun; both null: none is open
) STRICT;

-- outbox: what goes to other servers, one queue for each, in the order of
-- positions. A position is never used again, so a transaction ID made of its
-- first and last row is not either.
-- Owner: outbox. Bound: bytes per destination and sender; sweeper: outbox, 14 days.
CREATE TABLE outbox (
  pos         INTEGER PRIMARY KEY,
  destination INTEGER NOT NULL,  -- of destinations; no declared reference, which would cost an index
  class       INTEGER NOT NULL,  -- 0 PDU, 1 to-device, 2 device lists, 3 may be dropped
  sender      INTEGER NOT NULL,  -- of users, whose share it counts in; 0: the server itself
  event       INTEGER,           -- PDU: the event's number
  edu         BLOB,              -- EDU: complete JSON, with its message ID
  edu_key     TEXT,              -- class 3: a newer row with the same key replaces this one
  bytes       INTEGER NOT NULL,
  at_clock    INTEGER NOT NULL,  -- age clock; rises with pos
  CHECK ((event IS NULL) <> (edu IS NULL))
) STRICT;
-- PDUs and EDUs have budgets of their own in a transaction.
CREATE INDEX outbox_pdus ON outbox (destination, pos) WHERE event IS NOT NULL;
CREATE INDEX outbox_edus ON outbox (destination, pos) WHERE edu IS NOT NULL;
CREATE INDEX outbox_keys ON outbox (destination, edu_key) WHERE edu_key IS NOT NULL;

-- outbox_shares: bytes of each sender in each queue, and, under destination 0,
-- in all queues together. Kept by triggers.
-- Owner: outbox. Bound: a row is deleted when it reaches zero.
CREATE TABLE outbox_shares (
  destination INTEGER NOT NULL,
  sender      INTEGER NOT NULL,
  bytes       INTEGER NOT NULL,
  PRIMARY KEY (destination, sender)
) STRICT, WITHOUT ROWID;

-- outbox_total: all queues together.
-- Owner: outbox. Bound: one row.
CREATE TABLE outbox_total (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  items INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT;
INSERT INTO outbox_total (id, items, bytes) VALUES (1, 0, 0);

CREATE TRIGGER outbox_in AFTER INSERT ON outbox BEGIN
  UPDATE destinations SET items = items + 1, bytes = bytes + new.bytes WHERE num = new.destination;
  UPDATE outbox_total SET items = items + 1, bytes = bytes + new.bytes;
  INSERT INTO outbox_shares (destination, sender, bytes)
  VALUES (new.destination, new.sender, new.bytes), (0, new.sender, new.bytes)
  ON CONFLICT DO UPDATE SET bytes = bytes + new.bytes;
END;
CREATE TRIGGER outbox_out AFTER DELETE ON outbox BEGIN
  UPDATE destinations SET items = items - 1, bytes = bytes - old.bytes WHERE num = old.destination;
  UPDATE outbox_total SET items = items - 1, bytes = bytes - old.bytes;
  UPDATE outbox_shares SET bytes = bytes - old.bytes
  WHERE sender = old.sender AND destination IN (0, old.destination);
  DELETE FROM outbox_shares
  WHERE sender = old.sender AND destination IN (0, old.destination) AND bytes <= 0;
END;
