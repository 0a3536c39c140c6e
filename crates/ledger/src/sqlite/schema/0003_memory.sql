-- What agents save for themselves. `labels` are those of the session that saved it, one a line. `mac` is made
-- with the ledger's key over every other column, so that nobody who only edits this table puts words into
-- an agent's memory, or hides where they came from: a row that is not signed counts as not there.
-- Forgetting removes the row.
CREATE TABLE memory (
    tenant  TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    person  TEXT    NOT NULL,
    agent   TEXT    NOT NULL,
    text    TEXT    NOT NULL,
    labels  TEXT    NOT NULL,
    session TEXT    NOT NULL,
    call    BLOB    NOT NULL,
    at      INTEGER NOT NULL,
    mac     BLOB    NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;
CREATE INDEX memory_of_agent ON memory (tenant, person, agent, at, id);

-- What sessions have read from by way of a memory. What they called themselves is in `provider_used`, which
-- follows from the record alone.
CREATE TABLE memory_source (
    tenant   TEXT NOT NULL,
    session  TEXT NOT NULL,
    provider TEXT NOT NULL,
    PRIMARY KEY (tenant, session, provider)
) STRICT, WITHOUT ROWID;
