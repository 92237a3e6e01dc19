-- position: the one counter that orders every durable stream, raised in every
-- batch, with the epoch it belongs to and the age clock as of that batch.
-- new_epoch is 1 in a backup: whoever opens that file begins a new history.
-- Owner: store. Bound: one row.
CREATE TABLE position (
  id        INTEGER PRIMARY KEY CHECK (id = 1),
  pos       INTEGER NOT NULL,
  epoch     INTEGER NOT NULL,
  new_epoch INTEGER NOT NULL CHECK (new_epoch IN (0, 1)),
  age_ms    INTEGER NOT NULL, -- the age clock; never goes back
  wall_ms   INTEGER NOT NULL  -- the wall clock at the same moment; may be wrong
) STRICT;
INSERT INTO position (id, pos, epoch, new_epoch, age_ms, wall_ms) VALUES (1, 1, 0, 1, 0, 0);

-- meta: facts about this file, such as the server name it belongs to.
-- Owner: store. Bound: one row per name, names are constants.
CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;
