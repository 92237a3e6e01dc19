-- account_data: what a user's clients keep here for each other, and what the
-- server itself keeps there (read markers, push rules). One row per user, room
-- and type; room is '' for what concerns the whole account. A room need not be
-- known: there is no telling what a client prepares.
-- Owner: accounts. Bound: entries and bytes per user, as configured.
CREATE TABLE account_data (
  num      INTEGER PRIMARY KEY,
  user_num INTEGER NOT NULL REFERENCES users (num),
  room     TEXT    NOT NULL,
  type     TEXT    NOT NULL,
  content  BLOB    NOT NULL,         -- a JSON object, as sent
  pos      INTEGER NOT NULL,
  UNIQUE (user_num, room, type)
) STRICT;
CREATE INDEX account_data_news ON account_data (user_num, pos);

-- account_data_totals: how much that is, in bytes of content, type and room.
-- Owner: accounts. Bound: one row per user.
CREATE TABLE account_data_totals (
  user_num INTEGER PRIMARY KEY REFERENCES users (num),
  entries  INTEGER NOT NULL,
  bytes    INTEGER NOT NULL
) STRICT;

CREATE TRIGGER account_data_in AFTER INSERT ON account_data BEGIN
  INSERT INTO account_data_totals (user_num, entries, bytes)
    VALUES (new.user_num, 1, octet_length(new.content) + octet_length(new.type) + octet_length(new.room))
    ON CONFLICT (user_num) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER account_data_new AFTER UPDATE OF content ON account_data BEGIN
  UPDATE account_data_totals SET bytes = bytes + octet_length(new.content) - octet_length(old.content)
    WHERE user_num = new.user_num;
END;
CREATE TRIGGER account_data_out AFTER DELETE ON account_data BEGIN
  UPDATE account_data_totals SET entries = entries - 1,
    bytes = bytes - octet_length(old.content) - octet_length(old.type) - octet_length(old.room)
    WHERE user_num = old.user_num;
END;

-- A locked account may only log out; a suspended one may read, leave and the like.
ALTER TABLE users ADD COLUMN locked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE users ADD COLUMN suspended INTEGER NOT NULL DEFAULT 0;
