-- Questions to people. `mac` is made with the ledger's key over every column but `changed`, so that
-- editing this table approves nothing: a row that is not signed counts as not there.
CREATE TABLE approval (
    tenant      TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    call        BLOB    NOT NULL,
    user        TEXT    NOT NULL,
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

-- A second guard for using an approval once: its start is looked for in the record, in case an
-- older, signed copy of its row was put back. Not unique: what has happened is always recorded.
CREATE INDEX event_by_approval ON event (tenant, json_extract(body, '$.approval'))
    WHERE kind = 'started' AND json_extract(body, '$.approval') IS NOT NULL;

-- Standing approvals, signed in the same way.
CREATE TABLE grant_rule (
    tenant    TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    user      TEXT    NOT NULL,
    rule      TEXT    NOT NULL,
    scope     TEXT    NOT NULL,
    bound_to  TEXT    NOT NULL,
    until_at  INTEGER,
    uses_left INTEGER,
    made_by   TEXT    NOT NULL,
    made_at   INTEGER NOT NULL,
    cause     BLOB,
    mac       BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX grant_by_id ON grant_rule (tenant, id);
CREATE INDEX grant_by_user ON grant_rule (tenant, user);
CREATE INDEX grant_by_end ON grant_rule (until_at) WHERE until_at IS NOT NULL;
