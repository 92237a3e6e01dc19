-- meta: facts about this file. Owner: store. Bound: one row per name, names are constants.
CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

-- position: the one counter that orders every durable stream, raised in every
-- batch. Owner: store. Bound: one row.
CREATE TABLE position (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  pos   INTEGER NOT NULL,
  epoch INTEGER NOT NULL
) STRICT;
INSERT INTO position (id, pos, epoch) VALUES (1, 1, 1);
