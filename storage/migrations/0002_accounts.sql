-- users: local accounts. Owner: accounts. Bound: made by registration, which is limited.
CREATE TABLE users (
  num            INTEGER PRIMARY KEY AUTOINCREMENT,
  localpart      TEXT    NOT NULL UNIQUE,
  password_hash  TEXT,             -- null: cannot log in by password
  admin          INTEGER NOT NULL DEFAULT 0,
  created_ms     INTEGER NOT NULL,
  deactivated_ms INTEGER           -- null: active
) STRICT;

-- devices: what a user is logged in with. num is the device's incarnation: it
-- is never used again, so a later device with the same ID inherits nothing.
-- Owner: accounts. Bound: max devices per user.
CREATE TABLE devices (
  num          INTEGER PRIMARY KEY AUTOINCREMENT,
  user_num     INTEGER NOT NULL REFERENCES users (num),
  device_id    TEXT    NOT NULL,
  display_name TEXT,
  created_ms   INTEGER NOT NULL,
  last_seen_ms INTEGER,
  last_seen_ip TEXT,
  UNIQUE (user_num, device_id)
) STRICT;
