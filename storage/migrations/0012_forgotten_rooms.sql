-- A room that every user of this server has forgotten is nobody's: the sweeper
-- lets go of it 30 days later.
ALTER TABLE rooms ADD COLUMN forgotten_clock INTEGER; -- age clock: since when, as far as is known; null: somebody remembers it
CREATE INDEX rooms_forgotten ON rooms (forgotten_clock) WHERE forgotten_clock IS NOT NULL;
