-- What lists and counts need of a call without reading its body: where it was made, by whom, with what,
-- and how it ended. Caught up with like the words of calls; a list looks at the calls themselves for what
-- is not, and the calls decide.
CREATE TABLE workspace (
    id     INTEGER NOT NULL PRIMARY KEY,
    tenant INTEGER NOT NULL,
    name   TEXT    NOT NULL,
    -- What people know it by.
    shown  TEXT,
    UNIQUE (tenant, name)
) STRICT;
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
CREATE INDEX call_fact_of_workspace ON call_fact (tenant, workspace, listed);
CREATE INDEX call_fact_open ON call_fact (tenant, listed) WHERE terminal IS NULL;

-- A session is counted in each workspace by itself.
DROP TABLE session_calls;
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
CREATE INDEX session_by_last ON session_calls (tenant, last_at);

-- Everything that is caught up with is derived anew, from the first call on.
INSERT INTO call_text (call_text) VALUES ('delete-all');
UPDATE caught_up SET position = 0 WHERE id = 1;
