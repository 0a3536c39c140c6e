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
, kind TEXT NOT NULL DEFAULT 'approval') STRICT;

CREATE TABLE approval_used (
    tenant   TEXT NOT NULL,
    approval TEXT NOT NULL,
    call     BLOB NOT NULL,
    PRIMARY KEY (tenant, approval, call)
) STRICT, WITHOUT ROWID;

CREATE TABLE call_fact (
    listed     INTEGER NOT NULL PRIMARY KEY,
    tenant     INTEGER NOT NULL,
    session    INTEGER NOT NULL,
    workspace  INTEGER NOT NULL,
    agent      TEXT    NOT NULL,
    -- The tool as `provider/name`, or as it was asked for if there is none.
    tool       TEXT    NOT NULL,
    asked_tool TEXT    NOT NULL,
    opened_at  INTEGER NOT NULL,
    terminal   INTEGER,
    asked      INTEGER NOT NULL,
    asked_us   INTEGER NOT NULL,
    ran_us     INTEGER NOT NULL,
    bytes      INTEGER NOT NULL
) STRICT;

CREATE VIRTUAL TABLE call_text USING fts5 (
    text, content = '', contentless_delete = 1, detail = none, tokenize = 'unicode61'
);

CREATE TABLE caught_up (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    position INTEGER NOT NULL
) STRICT;

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

CREATE TABLE grant_change (
    tenant  TEXT    NOT NULL,
    person  TEXT    NOT NULL,
    changed INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    PRIMARY KEY (tenant, person)
) STRICT, WITHOUT ROWID;

CREATE TABLE grant_count (
    tenant TEXT    NOT NULL PRIMARY KEY,
    kept   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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

CREATE TABLE memory_source (
    tenant   TEXT NOT NULL,
    session  TEXT NOT NULL,
    provider TEXT NOT NULL,
    PRIMARY KEY (tenant, session, provider)
) STRICT, WITHOUT ROWID;

CREATE TABLE open_call (
    writer INTEGER NOT NULL,
    listed INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    call   BLOB    NOT NULL,
    PRIMARY KEY (writer, listed)
) STRICT, WITHOUT ROWID;

CREATE TABLE principal (
    id     INTEGER NOT NULL PRIMARY KEY,
    tenant INTEGER NOT NULL,
    stored TEXT    NOT NULL,
    UNIQUE (tenant, stored)
) STRICT;

CREATE TABLE provider_used (
    tenant   INTEGER NOT NULL,
    session  INTEGER NOT NULL,
    provider TEXT    NOT NULL,
    PRIMARY KEY (tenant, session, provider)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE session (
    id     INTEGER NOT NULL PRIMARY KEY,
    tenant INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    UNIQUE (tenant, name)
) STRICT;

CREATE TABLE session_calls (
    session   INTEGER NOT NULL,
    workspace INTEGER NOT NULL,
    tenant    INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    agent     TEXT    NOT NULL,
    first_at  INTEGER NOT NULL,
    last_at   INTEGER NOT NULL,
    calls     INTEGER NOT NULL,
    PRIMARY KEY (session, workspace)
) STRICT, WITHOUT ROWID;

CREATE TABLE signing_key (
    id   INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    mark BLOB    NOT NULL
) STRICT;

CREATE TABLE tenant (
    id   INTEGER NOT NULL PRIMARY KEY,
    name TEXT    NOT NULL UNIQUE
) STRICT;

CREATE TABLE workspace (
    id     INTEGER NOT NULL PRIMARY KEY,
    tenant INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    -- What people know it by.
    shown  TEXT,
    UNIQUE (tenant, name)
) STRICT;

CREATE TABLE writer (
    id        INTEGER NOT NULL PRIMARY KEY,
    name      TEXT    NOT NULL UNIQUE,
    pid       INTEGER NOT NULL,
    boot      TEXT    NOT NULL,
    opened_at INTEGER NOT NULL
) STRICT;

CREATE INDEX accepted_unfinished ON accepted (at, call) WHERE request IS NOT NULL;

CREATE INDEX agent_question_words ON approval (tenant, session, digest) WHERE kind = 'question';

CREATE INDEX approval_by_change ON approval (changed);

CREATE INDEX approval_by_expiry ON approval (expires_at);

CREATE UNIQUE INDEX approval_by_id ON approval (tenant, id);

CREATE INDEX approval_open ON approval (tenant, session, digest)
    WHERE state IN ('pending', 'approved');

CREATE INDEX approval_pending ON approval (tenant, asked_at, id) WHERE state = 'pending';

CREATE INDEX approval_pending_of_session ON approval (tenant, session, expires_at)
    WHERE state = 'pending';

CREATE INDEX call_fact_ended ON call_fact (tenant, terminal, listed) WHERE terminal > 1;

CREATE INDEX call_fact_ended_of_session ON call_fact (tenant, session, terminal, listed) WHERE terminal > 1;

CREATE INDEX call_fact_of_agent ON call_fact (tenant, agent, listed);

CREATE INDEX call_fact_of_asked_tool ON call_fact (tenant, asked_tool, listed);

CREATE INDEX call_fact_of_session ON call_fact (tenant, session, listed);

CREATE INDEX call_fact_of_tenant ON call_fact (tenant, listed);

CREATE INDEX call_fact_of_tool ON call_fact (tenant, tool, listed);

CREATE INDEX call_fact_of_workspace ON call_fact (tenant, workspace, listed);

CREATE INDEX call_fact_open ON call_fact (tenant, listed) WHERE terminal IS NULL;

CREATE INDEX call_fact_unended ON call_fact (tenant, terminal, listed) WHERE terminal IS NULL;

CREATE INDEX credential_by_end ON credential (expires_at) WHERE expires_at IS NOT NULL;

CREATE UNIQUE INDEX credential_by_id ON credential (id);

CREATE INDEX credential_of_kind ON credential (tenant, kind, made_at, id);

CREATE INDEX credential_revoked ON credential (revoked_at) WHERE revoked_at IS NOT NULL;

CREATE INDEX grant_by_change ON grant_rule (tenant, person, changed);

CREATE INDEX grant_by_end ON grant_rule (until_at) WHERE until_at IS NOT NULL;

CREATE UNIQUE INDEX grant_by_id ON grant_rule (tenant, id);

CREATE INDEX grant_of_session ON grant_rule (tenant, bound_to) WHERE scope = 'session';

CREATE INDEX memory_of_agent ON memory (tenant, person, agent, at, id);

CREATE INDEX record_ended ON record (tenant, terminal, listed) WHERE terminal > 1;

CREATE UNIQUE INDEX record_first ON record (tenant, call) WHERE part = 0;

CREATE UNIQUE INDEX record_later ON record (tenant, call, part) WHERE part > 0;

CREATE INDEX record_of_session ON record (tenant, session, position) WHERE part = 0;

CREATE INDEX record_of_tenant ON record (tenant, position, at) WHERE part = 0;

CREATE INDEX request_key_by_age ON request_key (at);

CREATE INDEX session_by_last ON session_calls (tenant, last_at);
