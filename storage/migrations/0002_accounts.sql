-- users: local accounts. A number and a localpart are never used again: a
-- deactivated account keeps its row.
-- Owner: accounts. Bound: made by registration, which is limited.
CREATE TABLE users (
  num            INTEGER PRIMARY KEY AUTOINCREMENT,
  localpart      TEXT    NOT NULL UNIQUE,
  password_hash  TEXT,             -- Argon2id, PHC form; null: cannot log in by password
  admin          INTEGER NOT NULL DEFAULT 0,
  user_type      TEXT,             -- as given by shared-secret registration ("bot", "support")
  created_ms     INTEGER NOT NULL,
  deactivated_ms INTEGER,          -- null: active
  erased         INTEGER NOT NULL DEFAULT 0  -- the user asked for erasure when leaving
) STRICT;

-- devices: what a user is logged in with. num is the device's incarnation: it
-- is never used again, so a later device with the same ID inherits nothing.
-- Owner: accounts. Bound: max devices per user.
CREATE TABLE devices (
  num             INTEGER PRIMARY KEY AUTOINCREMENT,
  user_num        INTEGER NOT NULL REFERENCES users (num),
  device_id       TEXT    NOT NULL,
  display_name    TEXT,
  created_ms      INTEGER NOT NULL,
  last_seen_ms    INTEGER,           -- wall clock, shown to people
  last_seen_clock INTEGER NOT NULL,  -- age clock, decides which device is stale
  last_seen_ip    TEXT,
  last_seen_agent TEXT,
  UNIQUE (user_num, device_id)       -- covers DevicesOf
) STRICT;

-- tokens: pairs of an access and a refresh token, as SHA-256 hashes. State: 0
-- live; 1 pending, made by a refresh and not yet used; 2 spent, replaced by a
-- pair that was used; 3 revoked. Rows that no longer admit anyone are kept for
-- telling a copied refresh token, or a client that may log in to its device
-- again, from an unknown one.
-- Owner: accounts. Bound: per device one live pair, and a few pending and spent ones.
CREATE TABLE tokens (
  num           INTEGER PRIMARY KEY AUTOINCREMENT,
  device_num    INTEGER NOT NULL REFERENCES devices (num) ON DELETE CASCADE,
  access_hash   BLOB    NOT NULL UNIQUE,
  refresh_hash  BLOB    UNIQUE,      -- null: cannot be refreshed
  created_clock INTEGER NOT NULL,    -- age clock
  expires_clock INTEGER,             -- age clock; null: the access token does not expire
  parent        INTEGER,             -- the pair this one was refreshed from
  state         INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX tokens_device ON tokens (device_num, num);

-- registration_tokens: what admits new users. In the clear, since the
-- administrator lists them and hands them out again.
-- Owner: accounts. Bound: made by hand, 10,000 at most.
CREATE TABLE registration_tokens (
  token         TEXT PRIMARY KEY,
  uses_allowed  INTEGER,             -- null: any number
  uses          INTEGER NOT NULL DEFAULT 0,
  expires_clock INTEGER,             -- age clock; null: does not expire
  first_run     INTEGER NOT NULL DEFAULT 0, -- makes its user an administrator
  created_ms    INTEGER NOT NULL
) STRICT;

-- filters: what a client asked to be left out of its syncs, as it was uploaded.
-- Owner: accounts. Bound: 200 per user, the oldest goes.
CREATE TABLE filters (
  num      INTEGER PRIMARY KEY AUTOINCREMENT,
  user_num INTEGER NOT NULL REFERENCES users (num),
  hash     BLOB    NOT NULL,         -- SHA-256 of json: the same filter keeps its ID
  json     BLOB    NOT NULL,
  UNIQUE (user_num, hash)
) STRICT;
