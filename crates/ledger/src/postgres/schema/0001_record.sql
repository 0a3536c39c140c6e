-- The record, in the schema `haft`. What the tables hold is said in SQLite's `0001_record.sql`; here is
-- what is different: who may do what, whose rows a transaction sees, and one part a month.

-- Whose rows a transaction sees: settings that end with it.
CREATE FUNCTION own_names() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT string_to_array(coalesce(current_setting('haft.tenants', true), ''), ',') $$;
CREATE FUNCTION acts_for_every() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT coalesce(current_setting('haft.every', true), '') = 'on' $$;

CREATE TABLE tenant (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE
);
CREATE FUNCTION own_ids() RETURNS bigint[] LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT coalesce(array_agg(id), '{}') FROM haft.tenant WHERE name = ANY (haft.own_names()) $$;

CREATE TABLE session (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bigint NOT NULL,
    name   text   NOT NULL,
    UNIQUE (tenant, name)
);
CREATE TABLE principal (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bigint NOT NULL,
    stored text   NOT NULL,
    UNIQUE (tenant, stored)
);
CREATE TABLE writer (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name      text   NOT NULL UNIQUE,
    pid       bigint NOT NULL,
    boot      text   NOT NULL,
    opened_at bigint NOT NULL
);

-- The id of a call begins with the moment it was made, so that its rows are all in the part of one
-- month, and the key holds over all parts. An id from outside every month is in the last part.
CREATE SEQUENCE record_position;
CREATE TABLE record (
    position  bigint NOT NULL,
    tenant    bigint NOT NULL,
    session   bigint NOT NULL,
    principal bigint NOT NULL,
    call      bytea  NOT NULL,
    part      bigint NOT NULL,
    listed    bigint NOT NULL,
    at        bigint NOT NULL,
    terminal  bigint,
    writer    bigint NOT NULL,
    sequence  bigint NOT NULL,
    form      bigint NOT NULL,
    body      bytea  NOT NULL,
    hash      bytea  NOT NULL,
    PRIMARY KEY (tenant, call, part)
) PARTITION BY RANGE (call);
CREATE TABLE record_other PARTITION OF record DEFAULT;
-- Bodies are compressed before they come here.
ALTER TABLE record ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX record_by_position ON record (position);
CREATE INDEX record_of_tenant ON record (tenant, position, at) WHERE part = 0;
CREATE INDEX record_of_session ON record (tenant, session, position) WHERE part = 0;
CREATE INDEX record_ended ON record (tenant, terminal, listed) WHERE terminal > 1;

-- Makes the parts of this month and of some that follow.
CREATE FUNCTION make_months(ahead integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = haft, pg_temp AS $$
DECLARE
    month timestamptz;
    part text;
BEGIN
    FOR number IN 0..least(greatest(ahead, 0), 24) LOOP
        month := date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
            + make_interval(months => number);
        part := 'record_' || to_char(month AT TIME ZONE 'UTC', 'YYYY_MM');
        IF to_regclass('haft.' || part) IS NULL THEN
            EXECUTE format('CREATE TABLE haft.%I PARTITION OF haft.record FOR VALUES FROM (%L) TO (%L)',
                part, haft.first_id(month), haft.first_id(month + interval '1 month'));
            PERFORM haft.guard(part::regclass);
        END IF;
    END LOOP;
END $$;
CREATE FUNCTION first_id(moment timestamptz) RETURNS bytea LANGUAGE sql IMMUTABLE AS
    $$ SELECT substring(int8send((extract(epoch FROM moment) * 1000)::bigint) FROM 3) $$;

CREATE TABLE open_call (
    writer bigint NOT NULL,
    listed bigint NOT NULL,
    tenant bigint NOT NULL,
    call   bytea  NOT NULL,
    PRIMARY KEY (writer, listed)
);
CREATE TABLE chain (
    tenant   bigint NOT NULL,
    writer   bigint NOT NULL,
    sequence bigint NOT NULL,
    hash     bytea  NOT NULL,
    mac      bytea  NOT NULL,
    PRIMARY KEY (tenant, writer, sequence)
);
CREATE TABLE checkpoint (
    tenant bigint NOT NULL,
    writer bigint NOT NULL,
    number bigint NOT NULL,
    heads  text   NOT NULL,
    mac    bytea  NOT NULL,
    PRIMARY KEY (tenant, writer, number)
);

CREATE TABLE signing_key (
    id   bigint NOT NULL PRIMARY KEY CHECK (id = 1),
    mark bytea  NOT NULL
);
CREATE TABLE caught_up (
    id       bigint NOT NULL PRIMARY KEY CHECK (id = 1),
    position bigint NOT NULL
);
INSERT INTO caught_up (id, position) VALUES (1, 0);
CREATE TABLE session_calls (
    session  bigint NOT NULL PRIMARY KEY,
    tenant   bigint NOT NULL,
    kind     text   NOT NULL,
    agent    text   NOT NULL,
    first_at bigint NOT NULL,
    last_at  bigint NOT NULL,
    calls    bigint NOT NULL
);
CREATE INDEX session_by_last ON session_calls (tenant, last_at);
-- The words of settled calls. The tenant is one of them, so that a search looks at nobody else's.
CREATE TABLE call_text (
    listed bigint   NOT NULL PRIMARY KEY,
    tenant bigint   NOT NULL,
    words  tsvector NOT NULL
);
CREATE INDEX call_words ON call_text USING gin (words);
-- Searches them. Row-level security would keep the index from being used, because comparing words could
-- tell of rows that are not seen; so nobody reads the table itself, and this answers for the tenants that
-- its caller acts for. A word that many calls have is found among the newest, without looking at the rest.
CREATE FUNCTION find_text(wanted tsquery, before bigint, after bigint, newest_first boolean, most bigint)
RETURNS SETOF bigint LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = haft, pg_temp AS $$
DECLARE
    tenants bigint[] := own_ids();
    direction text := CASE WHEN newest_first THEN 'DESC' ELSE 'ASC' END;
    found bigint[];
BEGIN
    EXECUTE format('SELECT array_agg(listed ORDER BY listed %1$s) FROM (
        SELECT listed FROM (
            SELECT listed, tenant, words FROM call_text WHERE listed < $2 AND listed > $3
            ORDER BY listed %1$s LIMIT 10 * $4) AS near
        WHERE words @@ $1 AND tenant = ANY ($5) ORDER BY listed %1$s LIMIT $4) AS matching', direction)
    INTO found USING wanted, before, after, most, tenants;
    IF cardinality(found) >= most THEN
        RETURN QUERY SELECT unnest(found);
        RETURN;
    END IF;
    -- The inner query is planned by itself: a limit would have every row looked at in order.
    RETURN QUERY EXECUTE format('SELECT listed FROM (
        SELECT listed, tenant FROM call_text WHERE words @@ $1 OFFSET 0) AS matching
        WHERE listed < $2 AND listed > $3 AND tenant = ANY ($5)
        ORDER BY listed %s LIMIT $4', direction) USING wanted, before, after, most, tenants;
END $$;

CREATE TABLE provider_used (
    tenant   bigint NOT NULL,
    session  bigint NOT NULL,
    provider text   NOT NULL,
    PRIMARY KEY (tenant, session, provider)
);
CREATE TABLE seen (
    tenant       text NOT NULL,
    session      text NOT NULL,
    session_kind text NOT NULL,
    person       text NOT NULL,
    agent        text NOT NULL,
    workspace    text NOT NULL,
    path         text NOT NULL,
    version      text NOT NULL,
    PRIMARY KEY (tenant, session, session_kind, person, agent, workspace, path)
);

CREATE SEQUENCE approval_change;
CREATE TABLE approval (
    tenant      text   NOT NULL,
    id          text   NOT NULL,
    call        bytea  NOT NULL,
    person      text   NOT NULL,
    agent       text   NOT NULL,
    session     text   NOT NULL,
    principal   text   NOT NULL,
    digest      bytea  NOT NULL,
    form        text,
    summary     text   NOT NULL,
    asked_at    bigint NOT NULL,
    expires_at  bigint NOT NULL,
    state       text   NOT NULL,
    answered_by text,
    answered_at bigint,
    reason      text,
    used_by     bytea,
    changed     bigint NOT NULL,
    mac         bytea  NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX approval_open ON approval (tenant, session, digest)
    WHERE state IN ('pending', 'approved');
CREATE INDEX approval_pending ON approval (tenant, asked_at, id) WHERE state = 'pending';
CREATE INDEX approval_pending_of_session ON approval (tenant, session, expires_at)
    WHERE state = 'pending';
CREATE INDEX approval_by_change ON approval (changed);
CREATE INDEX approval_by_expiry ON approval (expires_at);
CREATE TABLE approval_used (
    tenant   text  NOT NULL,
    approval text  NOT NULL,
    call     bytea NOT NULL,
    PRIMARY KEY (tenant, approval, call)
);
CREATE TABLE grant_rule (
    tenant    text   NOT NULL,
    id        text   NOT NULL,
    person    text   NOT NULL,
    rule      text   NOT NULL,
    scope     text   NOT NULL,
    bound_to  text   NOT NULL,
    shown     text,
    until_at  bigint,
    uses_left bigint,
    made_by   text   NOT NULL,
    made_at   bigint NOT NULL,
    cause     bytea,
    changed   bigint NOT NULL,
    mac       bytea  NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX grant_by_change ON grant_rule (tenant, person, changed);
CREATE INDEX grant_by_end ON grant_rule (until_at) WHERE until_at IS NOT NULL;
CREATE INDEX grant_of_session ON grant_rule (tenant, bound_to) WHERE scope = 'session';
CREATE TABLE grant_change (
    tenant  text   NOT NULL,
    person  text   NOT NULL,
    changed bigint NOT NULL,
    removed bigint NOT NULL,
    PRIMARY KEY (tenant, person)
);
CREATE TABLE grant_count (
    tenant text   NOT NULL PRIMARY KEY,
    kept   bigint NOT NULL
);
CREATE TABLE accepted (
    tenant  text   NOT NULL,
    call    bytea  NOT NULL,
    at      bigint NOT NULL,
    digest  bytea  NOT NULL,
    request text,
    epoch   bigint NOT NULL,
    mac     bytea  NOT NULL,
    PRIMARY KEY (tenant, call)
);

-- Three roles: whoever makes the schema owns it; `haft_service` writes, and takes nothing back;
-- `haft_reader` reads, one tenant at a time.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['haft_service', 'haft_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        END IF;
    END LOOP;
END $$;

-- Rows are seen by who acts for their tenant; the service and the owner may also act for every tenant.
CREATE FUNCTION guard(guarded regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    tenants text;
BEGIN
    tenants := CASE
        WHEN guarded::oid = 'haft.tenant'::regclass THEN 'name = ANY ((SELECT haft.own_names())::text[])'
        WHEN EXISTS (SELECT FROM pg_attribute WHERE attrelid = guarded AND attname = 'tenant'
            AND atttypid = 'text'::regtype) THEN 'tenant = ANY ((SELECT haft.own_names())::text[])'
        WHEN EXISTS (SELECT FROM pg_attribute WHERE attrelid = guarded AND attname = 'tenant')
            THEN 'tenant = ANY ((SELECT haft.own_ids())::bigint[])'
        -- It has nobody's rows, and is not for whoever forgot to say for whom they act.
        ELSE '(SELECT cardinality(haft.own_names())) > 0'
    END;
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', guarded);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', guarded);
    EXECUTE format('CREATE POLICY own_tenants ON %s USING (%s)', guarded, tenants);
    EXECUTE format('CREATE POLICY every_tenant ON %s TO haft_service, %I USING ((SELECT haft.acts_for_every()))',
        guarded, (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = guarded));
END $$;
DO $$
DECLARE
    guarded regclass;
BEGIN
    FOR guarded IN SELECT c.oid::regclass FROM pg_class c
        WHERE c.relnamespace = 'haft'::regnamespace AND c.relkind IN ('r', 'p')
        AND c.oid <> 'haft.call_text'::regclass LOOP
        PERFORM haft.guard(guarded);
    END LOOP;
END $$;

CREATE TABLE schema_version (version bigint NOT NULL PRIMARY KEY);
INSERT INTO schema_version (version) VALUES (1);

GRANT USAGE ON SCHEMA haft TO haft_service, haft_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA haft TO haft_service, haft_reader;
REVOKE SELECT ON call_text FROM haft_service, haft_reader;
GRANT INSERT ON signing_key, tenant, session, principal, writer, record, open_call, chain, checkpoint, session_calls,
    call_text, provider_used, seen, approval, approval_used, grant_rule, grant_change, grant_count,
    accepted TO haft_service;
GRANT UPDATE ON writer, caught_up, session_calls, seen, approval, grant_rule, grant_change, grant_count,
    accepted TO haft_service;
GRANT DELETE ON open_call, chain, approval, grant_rule, accepted TO haft_service;
GRANT USAGE, SELECT ON SEQUENCE record_position, approval_change TO haft_service;
REVOKE EXECUTE ON FUNCTION make_months(integer), guard(regclass),
    find_text(tsquery, bigint, bigint, boolean, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_months(integer) TO haft_service;
GRANT EXECUTE ON FUNCTION find_text(tsquery, bigint, bigint, boolean, bigint) TO haft_service, haft_reader;
SELECT make_months(3);
