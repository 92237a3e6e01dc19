-- sender_groups: whom the senders of to-device messages count as when room is
-- made: one registrable domain, or one address block, is one group. Number 0
-- is this server. A lower number was met earlier, which counts when names are
-- made up by the thousand; so numbers are never used again.
-- Owner: inbox. Sweeper: inbox, groups without senders.
CREATE TABLE sender_groups (
  num  INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT    NOT NULL UNIQUE
) STRICT;
INSERT INTO sender_groups (num, name) VALUES (0, '');

-- senders: users who have sent a to-device message to someone here, ours and
-- others'. A lower number was met earlier.
-- Owner: inbox. Sweeper: inbox, 30 days after the last message was sent, if none waits.
CREATE TABLE senders (
  num        INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id    TEXT    NOT NULL UNIQUE,
  grp        INTEGER NOT NULL,  -- of sender_groups; no declared reference, which would cost an index
  used_clock INTEGER NOT NULL   -- age clock, to the day
) STRICT;

-- inboxes: what waits for a device, kept with every change, so that a full inbox
-- costs no more to look at than an empty one. Each device has a row.
-- Owner: inbox. Bound: one row per device.
CREATE TABLE inboxes (
  device   INTEGER PRIMARY KEY,  -- of devices; comes and goes with it, by trigger
  messages INTEGER NOT NULL DEFAULT 0,
  bytes    INTEGER NOT NULL DEFAULT 0,
  evicted  INTEGER NOT NULL DEFAULT 0  -- messages this device lost to a limit, ever
) STRICT;

-- to_device: messages waiting for a device, in the order of their positions.
-- Owner: inbox. Bound: messages and bytes per device; sweeper: inbox, by age.
CREATE TABLE to_device (
  pos      INTEGER PRIMARY KEY,
  device   INTEGER NOT NULL,  -- of devices; goes with it, by trigger: a declared reference is looked up for every row
  sender   INTEGER NOT NULL,  -- of senders; no declared reference, which would cost an index
  type     TEXT    NOT NULL,
  content  BLOB    NOT NULL,  -- JSON as received
  bytes    INTEGER NOT NULL,  -- what the message takes in a sync response
  at_clock INTEGER NOT NULL   -- age clock; rises with pos
) STRICT;
-- Everything that ranking and counting an inbox reads.
CREATE INDEX to_device_of ON to_device (device, pos, sender, bytes);

-- Deletions have many reasons, so a trigger counts them. Insertions have one
-- place, which counts a thousand at once for less than a trigger would.
CREATE TRIGGER to_device_out AFTER DELETE ON to_device BEGIN
  UPDATE inboxes SET messages = messages - 1, bytes = bytes - old.bytes WHERE device = old.device;
END;

INSERT INTO inboxes (device) SELECT num FROM devices;
CREATE TRIGGER inbox_new AFTER INSERT ON devices BEGIN
  INSERT INTO inboxes (device) VALUES (new.num);
END;
CREATE TRIGGER inbox_gone AFTER DELETE ON devices BEGIN
  DELETE FROM inboxes WHERE device = old.num;
  DELETE FROM to_device WHERE device = old.num;
END;

-- received_edus: direct-to-device EDUs of other servers that were applied, so
-- that a repeated one is not. Numbers rise with the age clock.
-- Owner: inbox. Sweeper: inbox, 30 days.
CREATE TABLE received_edus (
  num      INTEGER PRIMARY KEY AUTOINCREMENT,
  hash     BLOB    NOT NULL UNIQUE,  -- SHA-256 of origin, sender, message ID and content
  at_clock INTEGER NOT NULL
) STRICT;
