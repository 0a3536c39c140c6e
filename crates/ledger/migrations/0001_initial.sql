-- Keys are tenant first, so that no read on the call path scans another tenant's rows.

-- One row for each ledger instance that may hold open calls. It is alive while its lock file is.
CREATE TABLE owner (
    id        TEXT    NOT NULL PRIMARY KEY,
    pid       INTEGER NOT NULL,
    boot      TEXT    NOT NULL,
    opened_at INTEGER NOT NULL
) STRICT;

-- What is known of a call, folded from its events; `verify` compares it with them.
CREATE TABLE call (
    position     INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant       TEXT    NOT NULL,
    id           BLOB    NOT NULL,
    session      TEXT    NOT NULL,
    session_kind TEXT    NOT NULL,
    user         TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    asked_tool   TEXT    NOT NULL,
    tool         TEXT,
    opened_at    INTEGER NOT NULL,
    started_at   INTEGER,
    read_only    INTEGER NOT NULL,
    redacted     INTEGER NOT NULL,
    terminal     TEXT,
    settled_at   INTEGER,
    summary      TEXT    NOT NULL,
    owner        TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX call_by_id ON call (tenant, id);
CREATE INDEX call_by_tenant ON call (tenant, position);
CREATE INDEX call_by_session ON call (tenant, session, position);
CREATE INDEX call_by_terminal ON call (tenant, terminal, position);
CREATE INDEX call_open ON call (owner, position) WHERE terminal IS NULL;

-- The record itself. `hash` covers every other column and the hash before it.
CREATE TABLE event (
    tenant   TEXT    NOT NULL,
    sequence INTEGER NOT NULL,
    call     BLOB    NOT NULL,
    at       INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    body     TEXT    NOT NULL,
    hash     BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX event_by_sequence ON event (tenant, sequence);
CREATE INDEX event_by_call ON event (tenant, call, sequence);
CREATE UNIQUE INDEX event_settled_once ON event (tenant, call) WHERE kind = 'settled';

-- The signed end of each tenant's chain, and signed points along it.
CREATE TABLE chain (
    tenant   TEXT    NOT NULL PRIMARY KEY,
    sequence INTEGER NOT NULL,
    hash     BLOB    NOT NULL,
    mac      BLOB    NOT NULL
) STRICT;
CREATE TABLE checkpoint (
    tenant   TEXT    NOT NULL,
    sequence INTEGER NOT NULL,
    hash     BLOB    NOT NULL,
    mac      BLOB    NOT NULL,
    PRIMARY KEY (tenant, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE session (
    tenant   TEXT    NOT NULL,
    id       TEXT    NOT NULL,
    kind     TEXT    NOT NULL,
    agent    TEXT    NOT NULL,
    first_at INTEGER NOT NULL,
    last_at  INTEGER NOT NULL,
    calls    INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_by_last ON session (tenant, last_at);

-- Which version of a file somebody last saw in a session.
CREATE TABLE seen (
    tenant       TEXT NOT NULL,
    session      TEXT NOT NULL,
    session_kind TEXT NOT NULL,
    user         TEXT NOT NULL,
    agent        TEXT NOT NULL,
    path         TEXT NOT NULL,
    version      TEXT NOT NULL,
    PRIMARY KEY (tenant, session, session_kind, user, agent, path)
) STRICT, WITHOUT ROWID;

-- Words of settled calls; `rowid` is the call's position. `tenant` is one token.
CREATE VIRTUAL TABLE call_text USING fts5 (
    tenant, text, content = '', contentless_delete = 1, tokenize = 'unicode61'
);
