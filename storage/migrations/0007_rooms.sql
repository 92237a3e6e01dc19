-- rooms: every room this server knows, with what lists and syncs of many rooms
-- look at, so that a quiet room costs them nothing.
-- Owner: rooms. Bound: made by users and invitations, which are limited; sweeper: rooms, those that were purged.
CREATE TABLE rooms (
  num        INTEGER PRIMARY KEY AUTOINCREMENT,
  room_id    TEXT    NOT NULL UNIQUE,
  version    TEXT    NOT NULL,
  state      INTEGER NOT NULL DEFAULT 0,  -- snapshot of the resolved state after all forward extremities; 0: none
  latest_pos INTEGER NOT NULL DEFAULT 0,  -- of the last told event or change of the current state
  joined     INTEGER NOT NULL DEFAULT 0,  -- members, as memberships has them
  invited    INTEGER NOT NULL DEFAULT 0,
  public     INTEGER NOT NULL DEFAULT 0,  -- in the directory
  purging    INTEGER NOT NULL DEFAULT 0   -- nobody finds it any more; the sweeper deletes what it holds
) STRICT;
CREATE INDEX rooms_latest ON rooms (latest_pos);
CREATE INDEX rooms_public ON rooms (joined, num) WHERE public = 1;
CREATE INDEX rooms_purging ON rooms (num) WHERE purging = 1;

-- events: events of rooms as they were hashed. The header stands before the
-- JSON, so that it is read without it.
-- Owner: rooms. Bound: what users send is limited; goes with its room. Sweeper: rooms, content of redacted events after 7 days.
CREATE TABLE events (
  num            INTEGER PRIMARY KEY AUTOINCREMENT,
  room           INTEGER NOT NULL,            -- of rooms; no declared reference, which would be looked up for every row
  event_id       TEXT    NOT NULL UNIQUE,
  pos            INTEGER NOT NULL,            -- in the room's stream: >0 told live, <0 backfilled, 0 never told
  depth          INTEGER NOT NULL,            -- ours, not the one the event claims; 0: not in the graph
  top            INTEGER NOT NULL DEFAULT 0,  -- told live: the greatest depth of those up to this one
  generation     INTEGER NOT NULL,            -- greater than those of its auth events
  ts             INTEGER NOT NULL,            -- origin_server_ts
  standing       INTEGER NOT NULL DEFAULT 0,  -- 0 accepted, 1 and 2 rejected
  soft_failed    INTEGER NOT NULL DEFAULT 0,
  outlier        INTEGER NOT NULL DEFAULT 0,  -- known, but not in the graph: no state, no parents
  state_before   INTEGER NOT NULL DEFAULT 0,  -- snapshot; 0: unknown, or the empty state before m.room.create
  replaces       INTEGER NOT NULL DEFAULT 0,  -- event of the same key in state_before
  redacted_by    INTEGER NOT NULL DEFAULT 0,
  redacted_clock INTEGER,                     -- age clock: redacted, and json still whole
  json           BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_stream ON events (room, pos) WHERE pos <> 0;
CREATE INDEX events_topological ON events (room, depth, pos) WHERE pos <> 0;
CREATE INDEX events_backfilled ON events (room, depth) WHERE pos < 0;
CREATE INDEX events_time ON events (room, ts) WHERE pos <> 0;
CREATE INDEX events_untold ON events (room) WHERE pos = 0;
CREATE INDEX events_state ON events (state_before) WHERE state_before <> 0;
CREATE INDEX events_redacted ON events (redacted_clock) WHERE redacted_clock IS NOT NULL;

-- event_edges: which events of the graph come directly after which.
-- Owner: rooms. Bound: 20 per event; goes with it.
CREATE TABLE event_edges (
  parent INTEGER NOT NULL,
  child  INTEGER NOT NULL,
  PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;

-- missing_parents: backward extremities, events that those of the graph name
-- as parents and that are not in it.
-- Owner: rooms. Bound: 20 per event; goes when the parent comes, or with the room.
CREATE TABLE missing_parents (
  room     INTEGER NOT NULL,
  event_id TEXT    NOT NULL,
  child    INTEGER NOT NULL,
  PRIMARY KEY (room, event_id, child)
) STRICT, WITHOUT ROWID;

-- event_senders: which device sent an event by which transaction. Numbers of
-- events rise with the age clock.
-- Owner: rooms. Sweeper: rooms, 14 days, as with the transaction's record.
CREATE TABLE event_senders (
  event    INTEGER PRIMARY KEY,
  device   INTEGER NOT NULL,
  txn_id   TEXT    NOT NULL,
  at_clock INTEGER NOT NULL
) STRICT;

-- extremities: the events of a room that no told event comes after.
-- Owner: rooms. Bound: set anew with every event; goes with the room.
CREATE TABLE extremities (
  room  INTEGER NOT NULL,
  event INTEGER NOT NULL,
  PRIMARY KEY (room, event)
) STRICT, WITHOUT ROWID;

-- redactions: accepted redactions by what they name, which may come later.
-- Owner: rooms. Bound: one per event; goes with the room.
CREATE TABLE redactions (
  room   INTEGER NOT NULL,
  target TEXT    NOT NULL,
  event  INTEGER NOT NULL,
  PRIMARY KEY (room, target, event)
) STRICT, WITHOUT ROWID;

-- current_state: the snapshot of rooms.state, by key.
-- Owner: rooms. Bound: one row per entry of the state; goes with the room.
CREATE TABLE current_state (
  room      INTEGER NOT NULL,
  type      TEXT    NOT NULL,
  state_key TEXT    NOT NULL,
  event     INTEGER NOT NULL,
  PRIMARY KEY (room, type, state_key)
) STRICT, WITHOUT ROWID;

-- state_changes: what moved the current state, so that a sync reads what
-- changed and not what is.
-- Owner: rooms. Bound: one row per state event or less; goes with the room.
CREATE TABLE state_changes (
  room      INTEGER NOT NULL,
  pos       INTEGER NOT NULL,
  type      TEXT    NOT NULL,
  state_key TEXT    NOT NULL,
  event     INTEGER NOT NULL,  -- 0: the entry vanished
  was       INTEGER NOT NULL,  -- 0: it is new
  PRIMARY KEY (room, pos, type, state_key)
) STRICT, WITHOUT ROWID;

-- room_states: which snapshot was the current state from which position on.
-- Owner: rooms. Bound: one row per change of the state; goes with the room.
CREATE TABLE room_states (
  room  INTEGER NOT NULL,
  pos   INTEGER NOT NULL,
  state INTEGER NOT NULL,
  PRIMARY KEY (room, pos)
) STRICT, WITHOUT ROWID;
CREATE INDEX room_states_of ON room_states (state);

-- memberships: m.room.member of the current state, by user and by room. A row
-- whose entry vanished from the state stays, as having left.
-- Owner: rooms. Bound: one row per user who ever was in the current state; goes with the room.
CREATE TABLE memberships (
  room       INTEGER NOT NULL,
  user_id    TEXT    NOT NULL,
  membership TEXT    NOT NULL,
  event      INTEGER NOT NULL,            -- 0: the entry vanished
  sender     TEXT,                        -- null: the user
  pos        INTEGER NOT NULL,            -- where the entry became this event
  since      INTEGER NOT NULL,            -- where it became this membership
  local      INTEGER NOT NULL,            -- a user of this server
  forgotten  INTEGER NOT NULL DEFAULT 0,  -- the user wants to see nothing more of it
  PRIMARY KEY (room, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memberships_of ON memberships (user_id, membership, room);
CREATE INDEX memberships_moved ON memberships (user_id, pos) WHERE local = 1;
CREATE INDEX memberships_in ON memberships (room, membership, user_id);
CREATE INDEX memberships_heroes ON memberships (room, since) WHERE membership IN ('join', 'invite');
CREATE INDEX memberships_local ON memberships (room, membership, user_id) WHERE local = 1;

-- joined_servers: how many members of a room are joined from which server.
-- Owner: rooms. Bound: one row per server with a member; a row is deleted when it reaches zero.
CREATE TABLE joined_servers (
  room    INTEGER NOT NULL,
  server  TEXT    NOT NULL,
  members INTEGER NOT NULL,
  PRIMARY KEY (room, server)
) STRICT, WITHOUT ROWID;
CREATE INDEX joined_servers_of ON joined_servers (server, room);

-- aliases: names of rooms on this server.
-- Owner: rooms. Bound: made by users, which is limited; goes with the room.
CREATE TABLE aliases (
  alias      TEXT    PRIMARY KEY,
  room       INTEGER NOT NULL,
  creator    TEXT    NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX aliases_of ON aliases (room, alias);
