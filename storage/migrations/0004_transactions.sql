-- transactions: requests with a transaction ID that succeeded, and what they
-- were answered. Numbers rise with the age clock.
-- Owner: transactions. Bound: about 100,000 per device; sweeper: inbox, 14 days.
CREATE TABLE transactions (
  num      INTEGER PRIMARY KEY AUTOINCREMENT,
  scope    BLOB    NOT NULL UNIQUE,  -- SHA-256 of who, method, route and variables
  device   INTEGER REFERENCES devices (num) ON DELETE CASCADE,  -- null: not a device's
  seq      INTEGER NOT NULL,         -- counts a device's transactions
  response BLOB    NOT NULL,
  at_clock INTEGER NOT NULL
) STRICT;
CREATE INDEX transactions_of ON transactions (device, seq);
