-- The record. A call is one row, or a few: its events since the last row, encoded together in `body`.
-- `part` counts them: the first is 0, and a last one that is not the first is 2^30, so that a call
-- begins once and ends once whoever writes it. `listed` is the position of the first. `hash` covers
-- every other column, with names in place of numbers, and the writer's row before it.
CREATE TABLE record (
    position  INTEGER NOT NULL PRIMARY KEY,
    tenant    INTEGER NOT NULL,
    session   INTEGER NOT NULL,
    principal INTEGER NOT NULL,
    call      BLOB    NOT NULL,
    part      INTEGER NOT NULL,
    listed    INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    terminal  INTEGER,
    writer    INTEGER NOT NULL,
    sequence  INTEGER NOT NULL,
    form      INTEGER NOT NULL,
    body      BLOB    NOT NULL,
    hash      BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX record_first ON record (tenant, call) WHERE part = 0;
CREATE UNIQUE INDEX record_later ON record (tenant, call, part) WHERE part > 0;
CREATE INDEX record_of_tenant ON record (tenant, position, at) WHERE part = 0;
CREATE INDEX record_of_session ON record (tenant, session, position) WHERE part = 0;
-- Most calls succeed, and those are found without it.
CREATE INDEX record_ended ON record (tenant, terminal, listed) WHERE terminal > 1;

-- Names, each written once.
CREATE TABLE tenant (
    id   INTEGER NOT NULL PRIMARY KEY,
    name TEXT    NOT NULL UNIQUE
) STRICT;
CREATE TABLE session (
    id     INTEGER NOT NULL PRIMARY KEY,
    tenant INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    UNIQUE (tenant, name)
) STRICT;
CREATE TABLE principal (
    id     INTEGER NOT NULL PRIMARY KEY,
    tenant INTEGER NOT NULL,
    stored TEXT    NOT NULL,
    UNIQUE (tenant, stored)
) STRICT;

-- Whoever writes has a chain of its own, and keeps its name for as long as its lock file is locked. A
-- name is used again once its process is gone, so that there are as many as there were writers at once.
CREATE TABLE writer (
    id        INTEGER NOT NULL PRIMARY KEY,
    name      TEXT    NOT NULL UNIQUE,
    pid       INTEGER NOT NULL,
    boot      TEXT    NOT NULL,
    opened_at INTEGER NOT NULL
) STRICT;

-- Calls that have a row and no end, of the writer that runs them.
CREATE TABLE open_call (
    writer INTEGER NOT NULL,
    listed INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    call   BLOB    NOT NULL,
    PRIMARY KEY (writer, listed)
) STRICT, WITHOUT ROWID;

-- The signed end of each chain (a new one takes the place of the one before), and signed ends of all chains of a tenant at moments in between.
CREATE TABLE chain (
    tenant   INTEGER NOT NULL,
    writer   INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    hash     BLOB    NOT NULL,
    mac      BLOB    NOT NULL,
    PRIMARY KEY (tenant, writer, sequence)
) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoint (
    tenant INTEGER NOT NULL,
    writer INTEGER NOT NULL,
    number INTEGER NOT NULL,
    heads  TEXT    NOT NULL,
    mac    BLOB    NOT NULL,
    PRIMARY KEY (tenant, writer, number)
) STRICT, WITHOUT ROWID;

-- What the key that signs is known by.
CREATE TABLE signing_key (
    id   INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    mark BLOB    NOT NULL
) STRICT;

-- What is only needed to search and to list sessions, up to a position; the rest is caught up with.
CREATE TABLE caught_up (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    position INTEGER NOT NULL
) STRICT;
INSERT INTO caught_up (id, position) VALUES (1, 0);
CREATE TABLE session_calls (
    session  INTEGER NOT NULL PRIMARY KEY,
    tenant   INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    agent    TEXT    NOT NULL,
    first_at INTEGER NOT NULL,
    last_at  INTEGER NOT NULL,
    calls    INTEGER NOT NULL
) STRICT;
CREATE INDEX session_by_last ON session_calls (tenant, last_at);
-- Words of settled calls; `rowid` is where the call is listed. The tenant is one of the words.
CREATE VIRTUAL TABLE call_text USING fts5 (
    text, content = '', contentless_delete = 1, detail = none, tokenize = 'unicode61'
);

-- The providers a session has used, other than the built-in one.
CREATE TABLE provider_used (
    tenant   INTEGER NOT NULL,
    session  INTEGER NOT NULL,
    provider TEXT    NOT NULL,
    PRIMARY KEY (tenant, session, provider)
) STRICT, WITHOUT ROWID;

-- Which version of a file somebody last saw in a session.
CREATE TABLE seen (
    tenant       TEXT NOT NULL,
    session      TEXT NOT NULL,
    session_kind TEXT NOT NULL,
    person        TEXT NOT NULL,
    agent        TEXT NOT NULL,
    workspace    TEXT NOT NULL,
    path         TEXT NOT NULL,
    version      TEXT NOT NULL,
    PRIMARY KEY (tenant, session, session_kind, person, agent, workspace, path)
) STRICT, WITHOUT ROWID;

-- Questions to people. `mac` is made with the ledger's key over every column but `changed`, so that
-- editing this table approves nothing: a row that is not signed counts as not there.
CREATE TABLE approval (
    tenant      TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    call        BLOB    NOT NULL,
    person       TEXT    NOT NULL,
    agent       TEXT    NOT NULL,
    session     TEXT    NOT NULL,
    principal   TEXT    NOT NULL,
    digest      BLOB    NOT NULL,
    form        TEXT,
    summary     TEXT    NOT NULL,
    asked_at    INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    answered_by TEXT,
    answered_at INTEGER,
    reason      TEXT,
    used_by     BLOB,
    -- Counts changes of state over all rows, so that whoever waits asks only for what is new.
    changed     INTEGER NOT NULL,
    mac         BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX approval_by_id ON approval (tenant, id);
CREATE INDEX approval_open ON approval (tenant, session, digest)
    WHERE state IN ('pending', 'approved');
CREATE INDEX approval_pending ON approval (tenant, asked_at, id) WHERE state = 'pending';
CREATE INDEX approval_pending_of_session ON approval (tenant, session, expires_at)
    WHERE state = 'pending';
CREATE INDEX approval_by_change ON approval (changed);
CREATE INDEX approval_by_expiry ON approval (expires_at);

-- A second guard for using an approval once, in case an older, signed copy of its row was put back;
-- `verify` compares it with the starts in the record.
CREATE TABLE approval_used (
    tenant   TEXT NOT NULL,
    approval TEXT NOT NULL,
    call     BLOB NOT NULL,
    PRIMARY KEY (tenant, approval, call)
) STRICT, WITHOUT ROWID;

-- Standing approvals, signed in the same way. `shown` is what people know a workspace by. `changed`
-- is the number of this row's last change among those of its user's grants.
CREATE TABLE grant_rule (
    tenant    TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    person    TEXT    NOT NULL,
    rule      TEXT    NOT NULL,
    scope     TEXT    NOT NULL,
    bound_to  TEXT    NOT NULL,
    shown     TEXT,
    until_at  INTEGER,
    uses_left INTEGER,
    made_by   TEXT    NOT NULL,
    made_at   INTEGER NOT NULL,
    cause     BLOB,
    changed   INTEGER NOT NULL,
    mac       BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX grant_by_id ON grant_rule (tenant, id);
CREATE INDEX grant_by_change ON grant_rule (tenant, person, changed);
CREATE INDEX grant_by_end ON grant_rule (until_at) WHERE until_at IS NOT NULL;
CREATE INDEX grant_of_session ON grant_rule (tenant, bound_to) WHERE scope = 'session';

-- The number of the last change to each user's grants, and of the last one that took some away: who
-- knows the grants up to a change reads only what changed since.
CREATE TABLE grant_change (
    tenant  TEXT    NOT NULL,
    person  TEXT    NOT NULL,
    changed INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    PRIMARY KEY (tenant, person)
) STRICT, WITHOUT ROWID;

-- How many grants a tenant has; more than there are after some were removed because they had ended.
CREATE TABLE grant_count (
    tenant TEXT    NOT NULL PRIMARY KEY,
    kept   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Calls that were accepted for whoever claims them. `request` is the request as it arrived, secrets and
-- all, because it is still to be run; it is taken out when the call is settled, and `digest` stays.
-- `epoch` is the claim that holds the call, 0 before the first. `mac` is made with the ledger's key over
-- every other column but `request`, which `digest` binds: a row that is not signed runs nothing.
CREATE TABLE accepted (
    tenant  TEXT    NOT NULL,
    call    BLOB    NOT NULL,
    at      INTEGER NOT NULL,
    digest  BLOB    NOT NULL,
    request TEXT,
    epoch   INTEGER NOT NULL,
    mac     BLOB    NOT NULL,
    PRIMARY KEY (tenant, call)
) STRICT, WITHOUT ROWID;
