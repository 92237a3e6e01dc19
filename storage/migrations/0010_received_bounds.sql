-- origins: how much is remembered of what other servers sent, by whom a server
-- counts as: one registrable domain, or one address block. A lower number was
-- met earlier, which counts when names are made up by the thousand.
-- Owner: inbound. Bound: a row is deleted when nothing is remembered any more,
-- and what is remembered is bounded in bytes, in all and of each.
CREATE TABLE origins (
  num   INTEGER PRIMARY KEY AUTOINCREMENT,
  name  TEXT    NOT NULL UNIQUE,
  bytes INTEGER NOT NULL DEFAULT 0  -- about what it takes on disk; kept by triggers
) STRICT;

-- origins_total: all of them together.
-- Owner: inbound. Bound: one row.
CREATE TABLE origins_total (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  bytes INTEGER NOT NULL
) STRICT;
INSERT INTO origins_total (id, bytes) VALUES (1, 0);

-- Rows from before this migration count for nobody, and expire.
ALTER TABLE received_edus ADD COLUMN origin INTEGER NOT NULL DEFAULT 0;  -- of origins
ALTER TABLE received_edus ADD COLUMN bytes  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transactions  ADD COLUMN origin INTEGER NOT NULL DEFAULT 0;  -- of origins; 0: no other server's
ALTER TABLE transactions  ADD COLUMN bytes  INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER received_in AFTER INSERT ON received_edus WHEN new.origin > 0 BEGIN
  UPDATE origins SET bytes = bytes + new.bytes WHERE num = new.origin;
  UPDATE origins_total SET bytes = bytes + new.bytes;
END;
CREATE TRIGGER received_out AFTER DELETE ON received_edus WHEN old.origin > 0 BEGIN
  UPDATE origins SET bytes = bytes - old.bytes WHERE num = old.origin;
  UPDATE origins_total SET bytes = bytes - old.bytes;
  DELETE FROM origins WHERE num = old.origin AND bytes <= 0;
END;
CREATE TRIGGER transactions_in AFTER INSERT ON transactions WHEN new.origin > 0 BEGIN
  UPDATE origins SET bytes = bytes + new.bytes WHERE num = new.origin;
  UPDATE origins_total SET bytes = bytes + new.bytes;
END;
CREATE TRIGGER transactions_out AFTER DELETE ON transactions WHEN old.origin > 0 BEGIN
  UPDATE origins SET bytes = bytes - old.bytes WHERE num = old.origin;
  UPDATE origins_total SET bytes = bytes - old.bytes;
  DELETE FROM origins WHERE num = old.origin AND bytes <= 0;
END;
