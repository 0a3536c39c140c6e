-- What an HTTP gateway needs of the record beside calls: who may ask, which requests it had before, and which
-- calls it owes an outcome.

-- API keys, sessions of the console and login codes. `secret` is the SHA-256 of what only its holder has.
-- `scopes` and `workspaces` are one a line; no workspace means all of the tenant's. `mac` is made with the
-- ledger's key over every other column, so that nobody who only edits this table logs in: a row that is not
-- signed counts as not there. An id is nobody else's in any tenant, because whoever presents it has not said
-- yet whose it is.
CREATE TABLE credential (
    tenant     TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    person     TEXT    NOT NULL,
    agent      TEXT,
    name       TEXT    NOT NULL,
    scopes     TEXT    NOT NULL,
    workspaces TEXT    NOT NULL,
    made_by    TEXT    NOT NULL,
    made_at    INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    secret     BLOB    NOT NULL,
    mac        BLOB    NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX credential_by_id ON credential (id);
CREATE INDEX credential_of_kind ON credential (tenant, kind, made_at, id);
CREATE INDEX credential_by_end ON credential (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX credential_revoked ON credential (revoked_at) WHERE revoked_at IS NOT NULL;

-- Which call a request made, by the key that its sender gave it, so that sending it again makes no second
-- one. `key` is a keyed hash of the sender's own; `body` is the digest of what was sent. Signed as above, and
-- removed after seven days.
CREATE TABLE request_key (
    tenant TEXT    NOT NULL,
    owner  TEXT    NOT NULL,
    key    BLOB    NOT NULL,
    body   BLOB    NOT NULL,
    call   BLOB    NOT NULL,
    at     INTEGER NOT NULL,
    mac    BLOB    NOT NULL,
    PRIMARY KEY (tenant, owner, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_key_by_age ON request_key (at);

-- Accepted calls that have no outcome, oldest first.
CREATE INDEX accepted_unfinished ON accepted (at, call) WHERE request IS NOT NULL;

-- Pages of calls that a filter means, newest first. Each has a column more than `call_fact_of_tenant` that a
-- condition names, so that SQLite, which has no statistics here, does not take that one for it.
CREATE INDEX call_fact_of_tenant ON call_fact (tenant, listed);
CREATE INDEX call_fact_of_session ON call_fact (tenant, session, listed);
CREATE INDEX call_fact_of_agent ON call_fact (tenant, agent, listed);
CREATE INDEX call_fact_of_tool ON call_fact (tenant, tool, listed);
CREATE INDEX call_fact_of_asked_tool ON call_fact (tenant, asked_tool, listed);
CREATE INDEX call_fact_ended ON call_fact (tenant, terminal, listed) WHERE terminal > 1;
CREATE INDEX call_fact_ended_of_session ON call_fact (tenant, session, terminal, listed) WHERE terminal > 1;
CREATE INDEX call_fact_unended ON call_fact (tenant, terminal, listed) WHERE terminal IS NULL;
