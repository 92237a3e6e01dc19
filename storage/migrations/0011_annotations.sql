-- annotations: which annotations users of this server have sent, by a hash of
-- sender, type and key, so that nobody sends one twice.
-- Owner: rooms. Bound: one per event; goes with it.
CREATE TABLE annotations (
  target TEXT    NOT NULL,  -- ID of the event that is annotated
  what   BLOB    NOT NULL,
  event  INTEGER NOT NULL,
  PRIMARY KEY (target, what)
) STRICT, WITHOUT ROWID;
CREATE INDEX annotations_event ON annotations (event);
CREATE TRIGGER annotations_gone AFTER DELETE ON events BEGIN
  DELETE FROM annotations WHERE event = OLD.num;
END;
