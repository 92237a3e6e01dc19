-- signing_keys: what this server signs with, and what it used to sign with. One
-- is in use. The seed of a retired key is forgotten: with it, somebody could
-- sign events dated back.
-- Owner: keyring. Bound: made by hand, 100 at most.
CREATE TABLE signing_keys (
  num        INTEGER PRIMARY KEY AUTOINCREMENT,
  key_id     TEXT    NOT NULL UNIQUE,  -- "ed25519:a_QWERTY"
  public     BLOB    NOT NULL,
  seed       BLOB,
  created_ms INTEGER NOT NULL,
  retired_ms INTEGER,                  -- wall clock; null: in use
  CHECK ((seed IS NULL) = (retired_ms IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX signing_keys_used ON signing_keys ((1)) WHERE retired_ms IS NULL;

-- key_servers: what other servers said last of their keys. A cache that
-- restarts do not lose: the keys of a server that is gone still verify its events.
-- Owner: keyring. Bound: 20,000 servers and 64 MiB, the least recently used go;
-- sweeper: keyring, servers whose keys nobody asked for in a year.
CREATE TABLE key_servers (
  num            INTEGER PRIMARY KEY,
  name           TEXT    NOT NULL UNIQUE,
  statement      BLOB    NOT NULL,  -- as received, with its signatures
  valid_until_ms INTEGER NOT NULL,  -- as it says
  fetched_ms     INTEGER NOT NULL,  -- wall clock
  used_clock     INTEGER NOT NULL   -- age clock, to within a day
) STRICT;
CREATE INDEX key_servers_unused ON key_servers (used_clock);

-- server_keys: the keys of these servers, those included that their last
-- statement no longer names.
-- Owner: keyring. Bound: 128 per server; they go with their server.
CREATE TABLE server_keys (
  server         INTEGER NOT NULL REFERENCES key_servers (num) ON DELETE CASCADE,
  key_id         TEXT    NOT NULL,
  public         BLOB    NOT NULL,
  valid_until_ms INTEGER NOT NULL,  -- as the server said
  seen_ms        INTEGER NOT NULL,  -- wall clock: when it last said so
  expired_ms     INTEGER,           -- when the server stopped using it; null: it did not say
  PRIMARY KEY (server, key_id)
) STRICT, WITHOUT ROWID;

-- key_servers_total: how much that is, a key counted as 128 bytes.
-- Owner: keyring. Bound: one row.
CREATE TABLE key_servers_total (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  servers INTEGER NOT NULL,
  bytes   INTEGER NOT NULL
) STRICT;
INSERT INTO key_servers_total (id, servers, bytes) VALUES (1, 0, 0);

CREATE TRIGGER key_servers_in AFTER INSERT ON key_servers BEGIN
  UPDATE key_servers_total SET servers = servers + 1, bytes = bytes + length(new.statement);
END;
CREATE TRIGGER key_servers_new AFTER UPDATE OF statement ON key_servers BEGIN
  UPDATE key_servers_total SET bytes = bytes + length(new.statement) - length(old.statement);
END;
CREATE TRIGGER key_servers_out AFTER DELETE ON key_servers BEGIN
  UPDATE key_servers_total SET servers = servers - 1, bytes = bytes - length(old.statement);
END;
CREATE TRIGGER server_keys_in AFTER INSERT ON server_keys BEGIN
  UPDATE key_servers_total SET bytes = bytes + 128;
END;
CREATE TRIGGER server_keys_out AFTER DELETE ON server_keys BEGIN
  UPDATE key_servers_total SET bytes = bytes - 128;
END;
