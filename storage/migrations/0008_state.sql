-- state_keys: the keys of rooms' states, by number. A number is never used
-- again: a delta may name a removed key that is forgotten here.
-- Owner: state. Bound: what state events use; sweeper: state, those of purged rooms that no other room has.
CREATE TABLE state_keys (
  num       INTEGER PRIMARY KEY AUTOINCREMENT,
  type      TEXT    NOT NULL,
  state_key TEXT    NOT NULL,
  UNIQUE (type, state_key)
) STRICT;

-- state_keys_loose: keys that deleted snapshots named, so that perhaps nothing
-- names them any more.
-- Owner: state. Bound: state_keys; sweeper: state, each is looked at once.
CREATE TABLE state_keys_loose (
  num   INTEGER PRIMARY KEY,
  again INTEGER NOT NULL DEFAULT 0  -- noted once more while a search was under way
) STRICT;

-- state_snapshots: states of rooms, each as its difference from an ancestor: see
-- storage/DESIGN.md, "State". A row is written once; only collection gives it
-- another base. What is read often stands before the delta, which may be long.
-- Owner: state. Bound: one row per change of a state; sweeper: state, those nothing refers to; goes with the room.
CREATE TABLE state_snapshots (
  num   INTEGER PRIMARY KEY AUTOINCREMENT,
  room  INTEGER NOT NULL,
  base  INTEGER NOT NULL,  -- of state_snapshots; 0: the empty state
  depth INTEGER NOT NULL,  -- that of the base has some of the low bits cleared
  hash  INTEGER NOT NULL,  -- of the whole content: the sum over its entries
  delta BLOB    NOT NULL   -- varints: count, then key (as a distance) and event, sorted; event 0: not there
) STRICT;
CREATE INDEX state_same ON state_snapshots (room, hash);
CREATE INDEX state_children ON state_snapshots (base, room, depth);

-- state_loose: snapshots that nothing may refer to: those that are new, and
-- those that a reference to was dropped from.
-- Owner: state. Bound: state_snapshots; sweeper: state, each is looked at once.
CREATE TABLE state_loose (
  num      INTEGER PRIMARY KEY,
  at_clock INTEGER NOT NULL  -- age clock: made then; 0: it was referred to before
) STRICT;

CREATE TRIGGER state_event_gone AFTER DELETE ON events WHEN old.state_before <> 0 BEGIN
  INSERT OR IGNORE INTO state_loose (num, at_clock) VALUES (old.state_before, 0);
END;
CREATE TRIGGER state_event_moved AFTER UPDATE OF state_before ON events WHEN old.state_before NOT IN (0, new.state_before) BEGIN
  INSERT OR IGNORE INTO state_loose (num, at_clock) VALUES (old.state_before, 0);
END;
CREATE TRIGGER state_history_gone AFTER DELETE ON room_states WHEN old.state <> 0 BEGIN
  INSERT OR IGNORE INTO state_loose (num, at_clock) VALUES (old.state, 0);
END;
CREATE TRIGGER state_history_moved AFTER UPDATE OF state ON room_states WHEN old.state NOT IN (0, new.state) BEGIN
  INSERT OR IGNORE INTO state_loose (num, at_clock) VALUES (old.state, 0);
END;
CREATE TRIGGER state_room_gone AFTER DELETE ON rooms WHEN old.state <> 0 BEGIN
  INSERT OR IGNORE INTO state_loose (num, at_clock) VALUES (old.state, 0);
END;
CREATE TRIGGER state_room_moved AFTER UPDATE OF state ON rooms WHEN old.state NOT IN (0, new.state) BEGIN
  INSERT OR IGNORE INTO state_loose (num, at_clock) VALUES (old.state, 0);
END;
