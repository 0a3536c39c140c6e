-- What agents save for themselves. What the tables hold is said in SQLite's `0003_memory.sql`.
CREATE TABLE memory (
    tenant  text   NOT NULL,
    id      text   NOT NULL,
    person  text   NOT NULL,
    agent   text   NOT NULL,
    text    text   NOT NULL,
    labels  text   NOT NULL,
    session text   NOT NULL,
    call    bytea  NOT NULL,
    at      bigint NOT NULL,
    mac     bytea  NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX memory_of_agent ON memory (tenant, person, agent, at, id);
CREATE TABLE memory_source (
    tenant   text NOT NULL,
    session  text NOT NULL,
    provider text NOT NULL,
    PRIMARY KEY (tenant, session, provider)
);
SELECT guard('memory'), guard('memory_source');
GRANT SELECT ON memory, memory_source TO haft_service, haft_reader;
GRANT INSERT, DELETE ON memory TO haft_service;
GRANT INSERT ON memory_source TO haft_service;
INSERT INTO schema_version (version) VALUES (3);
