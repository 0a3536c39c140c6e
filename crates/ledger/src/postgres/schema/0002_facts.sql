-- What lists and counts need of a call without reading its body. What the tables hold is said in SQLite's
-- `0002_facts.sql`.
SELECT set_config('haft.every', 'on', true);

CREATE TABLE workspace (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bigint NOT NULL,
    name   text   NOT NULL,
    shown  text,
    UNIQUE (tenant, name)
);
CREATE TABLE call_fact (
    listed     bigint NOT NULL PRIMARY KEY,
    tenant     bigint NOT NULL,
    session    bigint NOT NULL,
    workspace  bigint NOT NULL,
    agent      text   NOT NULL,
    tool       text   NOT NULL,
    asked_tool text   NOT NULL,
    opened_at  bigint NOT NULL,
    terminal   bigint,
    asked      bigint NOT NULL,
    asked_us   bigint NOT NULL,
    ran_us     bigint NOT NULL,
    bytes      bigint NOT NULL
);
CREATE INDEX call_fact_of_workspace ON call_fact (tenant, workspace, listed);
CREATE INDEX call_fact_of_tenant ON call_fact (tenant, listed);
CREATE INDEX call_fact_open ON call_fact (tenant, listed) WHERE terminal IS NULL;

DROP TABLE session_calls;
CREATE TABLE session_calls (
    session   bigint NOT NULL,
    workspace bigint NOT NULL,
    tenant    bigint NOT NULL,
    kind      text   NOT NULL,
    agent     text   NOT NULL,
    first_at  bigint NOT NULL,
    last_at   bigint NOT NULL,
    calls     bigint NOT NULL,
    PRIMARY KEY (session, workspace)
);
CREATE INDEX session_by_last ON session_calls (tenant, last_at);

SELECT guard('workspace'), guard('call_fact'), guard('session_calls');
GRANT SELECT ON workspace, call_fact, session_calls TO haft_service, haft_reader;
GRANT INSERT, UPDATE ON workspace, call_fact, session_calls TO haft_service;

TRUNCATE call_text;
UPDATE caught_up SET position = 0 WHERE id = 1;
INSERT INTO schema_version (version) VALUES (2);
