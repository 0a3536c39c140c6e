-- What an HTTP gateway needs of the record. What the tables hold is said in SQLite's `0005_gateway.sql`.
CREATE TABLE credential (
    tenant     text   NOT NULL,
    id         text   NOT NULL,
    kind       text   NOT NULL,
    person     text   NOT NULL,
    agent      text,
    name       text   NOT NULL,
    scopes     text   NOT NULL,
    workspaces text   NOT NULL,
    made_by    text   NOT NULL,
    made_at    bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    secret     bytea  NOT NULL,
    mac        bytea  NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX credential_by_id ON credential (id);
CREATE INDEX credential_of_kind ON credential (tenant, kind, made_at, id);
CREATE INDEX credential_by_end ON credential (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX credential_revoked ON credential (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE TABLE request_key (
    tenant text   NOT NULL,
    owner  text   NOT NULL,
    key    bytea  NOT NULL,
    body   bytea  NOT NULL,
    call   bytea  NOT NULL,
    at     bigint NOT NULL,
    mac    bytea  NOT NULL,
    PRIMARY KEY (tenant, owner, key)
);
CREATE INDEX request_key_by_age ON request_key (at);
CREATE INDEX accepted_unfinished ON accepted (at, call) WHERE request IS NOT NULL;
CREATE INDEX call_fact_of_session ON call_fact (tenant, session, listed);
CREATE INDEX call_fact_of_agent ON call_fact (tenant, agent, listed);
CREATE INDEX call_fact_of_tool ON call_fact (tenant, tool, listed);
CREATE INDEX call_fact_of_asked_tool ON call_fact (tenant, asked_tool, listed);
CREATE INDEX call_fact_ended ON call_fact (tenant, terminal, listed) WHERE terminal > 1;
CREATE INDEX call_fact_ended_of_session ON call_fact (tenant, session, terminal, listed) WHERE terminal > 1;
SELECT guard('credential'), guard('request_key');
-- Not for `haft_reader`: an auditor has no use for what logs somebody in.
GRANT SELECT, INSERT, UPDATE, DELETE ON credential, request_key TO haft_service;
INSERT INTO schema_version (version) VALUES (5);
