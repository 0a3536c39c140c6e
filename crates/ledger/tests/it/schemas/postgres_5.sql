SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

CREATE SCHEMA haft;

CREATE FUNCTION haft.acts_for_every() RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT coalesce(current_setting('haft.every', true), '') = 'on' $$;

CREATE FUNCTION haft.find_text(wanted tsquery, before bigint, after bigint, newest_first boolean, most bigint) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'haft', 'pg_temp'
    AS $_$
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
END $_$;

CREATE FUNCTION haft.first_id(moment timestamp with time zone) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT substring(int8send((extract(epoch FROM moment) * 1000)::bigint) FROM 3) $$;

CREATE FUNCTION haft.guard(guarded regclass) RETURNS void
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION haft.make_months(ahead integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'haft', 'pg_temp'
    AS $$
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

CREATE FUNCTION haft.own_ids() RETURNS bigint[]
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT coalesce(array_agg(id), '{}') FROM haft.tenant WHERE name = ANY (haft.own_names()) $$;

CREATE FUNCTION haft.own_names() RETURNS text[]
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT string_to_array(coalesce(current_setting('haft.tenants', true), ''), ',') $$;

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE haft.accepted (
    tenant text NOT NULL,
    call bytea NOT NULL,
    at bigint NOT NULL,
    digest bytea NOT NULL,
    request text,
    epoch bigint NOT NULL,
    mac bytea NOT NULL
);

ALTER TABLE ONLY haft.accepted FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.approval (
    tenant text NOT NULL,
    id text NOT NULL,
    call bytea NOT NULL,
    person text NOT NULL,
    agent text NOT NULL,
    session text NOT NULL,
    principal text NOT NULL,
    digest bytea NOT NULL,
    form text,
    summary text NOT NULL,
    asked_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    state text NOT NULL,
    answered_by text,
    answered_at bigint,
    reason text,
    used_by bytea,
    changed bigint NOT NULL,
    mac bytea NOT NULL,
    kind text DEFAULT 'approval'::text NOT NULL
);

ALTER TABLE ONLY haft.approval FORCE ROW LEVEL SECURITY;

CREATE SEQUENCE haft.approval_change
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE haft.approval_used (
    tenant text NOT NULL,
    approval text NOT NULL,
    call bytea NOT NULL
);

ALTER TABLE ONLY haft.approval_used FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.call_fact (
    listed bigint NOT NULL,
    tenant bigint NOT NULL,
    session bigint NOT NULL,
    workspace bigint NOT NULL,
    agent text NOT NULL,
    tool text NOT NULL,
    asked_tool text NOT NULL,
    opened_at bigint NOT NULL,
    terminal bigint,
    asked bigint NOT NULL,
    asked_us bigint NOT NULL,
    ran_us bigint NOT NULL,
    bytes bigint NOT NULL
);

ALTER TABLE ONLY haft.call_fact FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.call_text (
    listed bigint NOT NULL,
    tenant bigint NOT NULL,
    words tsvector NOT NULL
);

CREATE TABLE haft.caught_up (
    id bigint NOT NULL,
    "position" bigint NOT NULL,
    CONSTRAINT caught_up_id_check CHECK ((id = 1))
);

ALTER TABLE ONLY haft.caught_up FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.chain (
    tenant bigint NOT NULL,
    writer bigint NOT NULL,
    sequence bigint NOT NULL,
    hash bytea NOT NULL,
    mac bytea NOT NULL
);

ALTER TABLE ONLY haft.chain FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.checkpoint (
    tenant bigint NOT NULL,
    writer bigint NOT NULL,
    number bigint NOT NULL,
    heads text NOT NULL,
    mac bytea NOT NULL
);

ALTER TABLE ONLY haft.checkpoint FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.credential (
    tenant text NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    person text NOT NULL,
    agent text,
    name text NOT NULL,
    scopes text NOT NULL,
    workspaces text NOT NULL,
    made_by text NOT NULL,
    made_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    secret bytea NOT NULL,
    mac bytea NOT NULL
);

ALTER TABLE ONLY haft.credential FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.grant_change (
    tenant text NOT NULL,
    person text NOT NULL,
    changed bigint NOT NULL,
    removed bigint NOT NULL
);

ALTER TABLE ONLY haft.grant_change FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.grant_count (
    tenant text NOT NULL,
    kept bigint NOT NULL
);

ALTER TABLE ONLY haft.grant_count FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.grant_rule (
    tenant text NOT NULL,
    id text NOT NULL,
    person text NOT NULL,
    rule text NOT NULL,
    scope text NOT NULL,
    bound_to text NOT NULL,
    shown text,
    until_at bigint,
    uses_left bigint,
    made_by text NOT NULL,
    made_at bigint NOT NULL,
    cause bytea,
    changed bigint NOT NULL,
    mac bytea NOT NULL
);

ALTER TABLE ONLY haft.grant_rule FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.memory (
    tenant text NOT NULL,
    id text NOT NULL,
    person text NOT NULL,
    agent text NOT NULL,
    text text NOT NULL,
    labels text NOT NULL,
    session text NOT NULL,
    call bytea NOT NULL,
    at bigint NOT NULL,
    mac bytea NOT NULL
);

ALTER TABLE ONLY haft.memory FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.memory_source (
    tenant text NOT NULL,
    session text NOT NULL,
    provider text NOT NULL
);

ALTER TABLE ONLY haft.memory_source FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.open_call (
    writer bigint NOT NULL,
    listed bigint NOT NULL,
    tenant bigint NOT NULL,
    call bytea NOT NULL
);

ALTER TABLE ONLY haft.open_call FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.principal (
    id bigint NOT NULL,
    tenant bigint NOT NULL,
    stored text NOT NULL
);

ALTER TABLE ONLY haft.principal FORCE ROW LEVEL SECURITY;

ALTER TABLE haft.principal ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME haft.principal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE haft.provider_used (
    tenant bigint NOT NULL,
    session bigint NOT NULL,
    provider text NOT NULL
);

ALTER TABLE ONLY haft.provider_used FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.record (
    "position" bigint NOT NULL,
    tenant bigint NOT NULL,
    session bigint NOT NULL,
    principal bigint NOT NULL,
    call bytea NOT NULL,
    part bigint NOT NULL,
    listed bigint NOT NULL,
    at bigint NOT NULL,
    terminal bigint,
    writer bigint NOT NULL,
    sequence bigint NOT NULL,
    form bigint NOT NULL,
    body bytea NOT NULL,
    hash bytea NOT NULL
)
PARTITION BY RANGE (call);
ALTER TABLE ONLY haft.record ALTER COLUMN body SET STORAGE EXTERNAL;

ALTER TABLE ONLY haft.record FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.record_2026_11 (
    "position" bigint NOT NULL,
    tenant bigint NOT NULL,
    session bigint NOT NULL,
    principal bigint NOT NULL,
    call bytea NOT NULL,
    part bigint NOT NULL,
    listed bigint NOT NULL,
    at bigint NOT NULL,
    terminal bigint,
    writer bigint NOT NULL,
    sequence bigint NOT NULL,
    form bigint NOT NULL,
    body bytea NOT NULL,
    hash bytea NOT NULL
);
ALTER TABLE ONLY haft.record_2026_11 ALTER COLUMN body SET STORAGE EXTERNAL;

ALTER TABLE ONLY haft.record_2026_11 FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.record_2026_12 (
    "position" bigint NOT NULL,
    tenant bigint NOT NULL,
    session bigint NOT NULL,
    principal bigint NOT NULL,
    call bytea NOT NULL,
    part bigint NOT NULL,
    listed bigint NOT NULL,
    at bigint NOT NULL,
    terminal bigint,
    writer bigint NOT NULL,
    sequence bigint NOT NULL,
    form bigint NOT NULL,
    body bytea NOT NULL,
    hash bytea NOT NULL
);
ALTER TABLE ONLY haft.record_2026_12 ALTER COLUMN body SET STORAGE EXTERNAL;

ALTER TABLE ONLY haft.record_2026_12 FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.record_2027_01 (
    "position" bigint NOT NULL,
    tenant bigint NOT NULL,
    session bigint NOT NULL,
    principal bigint NOT NULL,
    call bytea NOT NULL,
    part bigint NOT NULL,
    listed bigint NOT NULL,
    at bigint NOT NULL,
    terminal bigint,
    writer bigint NOT NULL,
    sequence bigint NOT NULL,
    form bigint NOT NULL,
    body bytea NOT NULL,
    hash bytea NOT NULL
);
ALTER TABLE ONLY haft.record_2027_01 ALTER COLUMN body SET STORAGE EXTERNAL;

ALTER TABLE ONLY haft.record_2027_01 FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.record_2027_02 (
    "position" bigint NOT NULL,
    tenant bigint NOT NULL,
    session bigint NOT NULL,
    principal bigint NOT NULL,
    call bytea NOT NULL,
    part bigint NOT NULL,
    listed bigint NOT NULL,
    at bigint NOT NULL,
    terminal bigint,
    writer bigint NOT NULL,
    sequence bigint NOT NULL,
    form bigint NOT NULL,
    body bytea NOT NULL,
    hash bytea NOT NULL
);
ALTER TABLE ONLY haft.record_2027_02 ALTER COLUMN body SET STORAGE EXTERNAL;

ALTER TABLE ONLY haft.record_2027_02 FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.record_other (
    "position" bigint NOT NULL,
    tenant bigint NOT NULL,
    session bigint NOT NULL,
    principal bigint NOT NULL,
    call bytea NOT NULL,
    part bigint NOT NULL,
    listed bigint NOT NULL,
    at bigint NOT NULL,
    terminal bigint,
    writer bigint NOT NULL,
    sequence bigint NOT NULL,
    form bigint NOT NULL,
    body bytea NOT NULL,
    hash bytea NOT NULL
);
ALTER TABLE ONLY haft.record_other ALTER COLUMN body SET STORAGE EXTERNAL;

ALTER TABLE ONLY haft.record_other FORCE ROW LEVEL SECURITY;

CREATE SEQUENCE haft.record_position
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE haft.request_key (
    tenant text NOT NULL,
    owner text NOT NULL,
    key bytea NOT NULL,
    body bytea NOT NULL,
    call bytea NOT NULL,
    at bigint NOT NULL,
    mac bytea NOT NULL
);

ALTER TABLE ONLY haft.request_key FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.schema_version (
    version bigint NOT NULL
);

CREATE TABLE haft.seen (
    tenant text NOT NULL,
    session text NOT NULL,
    session_kind text NOT NULL,
    person text NOT NULL,
    agent text NOT NULL,
    workspace text NOT NULL,
    path text NOT NULL,
    version text NOT NULL
);

ALTER TABLE ONLY haft.seen FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.session (
    id bigint NOT NULL,
    tenant bigint NOT NULL,
    name text NOT NULL
);

ALTER TABLE ONLY haft.session FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.session_calls (
    session bigint NOT NULL,
    workspace bigint NOT NULL,
    tenant bigint NOT NULL,
    kind text NOT NULL,
    agent text NOT NULL,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    calls bigint NOT NULL
);

ALTER TABLE ONLY haft.session_calls FORCE ROW LEVEL SECURITY;

ALTER TABLE haft.session ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME haft.session_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE haft.signing_key (
    id bigint NOT NULL,
    mark bytea NOT NULL,
    CONSTRAINT signing_key_id_check CHECK ((id = 1))
);

ALTER TABLE ONLY haft.signing_key FORCE ROW LEVEL SECURITY;

CREATE TABLE haft.tenant (
    id bigint NOT NULL,
    name text NOT NULL
);

ALTER TABLE ONLY haft.tenant FORCE ROW LEVEL SECURITY;

ALTER TABLE haft.tenant ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME haft.tenant_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE haft.workspace (
    id bigint NOT NULL,
    tenant bigint NOT NULL,
    name text NOT NULL,
    shown text
);

ALTER TABLE ONLY haft.workspace FORCE ROW LEVEL SECURITY;

ALTER TABLE haft.workspace ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME haft.workspace_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE haft.writer (
    id bigint NOT NULL,
    name text NOT NULL,
    pid bigint NOT NULL,
    boot text NOT NULL,
    opened_at bigint NOT NULL
);

ALTER TABLE ONLY haft.writer FORCE ROW LEVEL SECURITY;

ALTER TABLE haft.writer ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME haft.writer_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY haft.record ATTACH PARTITION haft.record_2026_11 FOR VALUES FROM ('\x01a19467e800') TO ('\x01a22ee6b000');

ALTER TABLE ONLY haft.record ATTACH PARTITION haft.record_2026_12 FOR VALUES FROM ('\x01a22ee6b000') TO ('\x01a2ce8bd400');

ALTER TABLE ONLY haft.record ATTACH PARTITION haft.record_2027_01 FOR VALUES FROM ('\x01a2ce8bd400') TO ('\x01a36e30f800');

ALTER TABLE ONLY haft.record ATTACH PARTITION haft.record_2027_02 FOR VALUES FROM ('\x01a36e30f800') TO ('\x01a3fe630800');

ALTER TABLE ONLY haft.record ATTACH PARTITION haft.record_other DEFAULT;

ALTER TABLE ONLY haft.accepted
    ADD CONSTRAINT accepted_pkey PRIMARY KEY (tenant, call);

ALTER TABLE ONLY haft.approval
    ADD CONSTRAINT approval_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY haft.approval_used
    ADD CONSTRAINT approval_used_pkey PRIMARY KEY (tenant, approval, call);

ALTER TABLE ONLY haft.call_fact
    ADD CONSTRAINT call_fact_pkey PRIMARY KEY (listed);

ALTER TABLE ONLY haft.call_text
    ADD CONSTRAINT call_text_pkey PRIMARY KEY (listed);

ALTER TABLE ONLY haft.caught_up
    ADD CONSTRAINT caught_up_pkey PRIMARY KEY (id);

ALTER TABLE ONLY haft.chain
    ADD CONSTRAINT chain_pkey PRIMARY KEY (tenant, writer, sequence);

ALTER TABLE ONLY haft.checkpoint
    ADD CONSTRAINT checkpoint_pkey PRIMARY KEY (tenant, writer, number);

ALTER TABLE ONLY haft.credential
    ADD CONSTRAINT credential_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY haft.grant_change
    ADD CONSTRAINT grant_change_pkey PRIMARY KEY (tenant, person);

ALTER TABLE ONLY haft.grant_count
    ADD CONSTRAINT grant_count_pkey PRIMARY KEY (tenant);

ALTER TABLE ONLY haft.grant_rule
    ADD CONSTRAINT grant_rule_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY haft.memory
    ADD CONSTRAINT memory_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY haft.memory_source
    ADD CONSTRAINT memory_source_pkey PRIMARY KEY (tenant, session, provider);

ALTER TABLE ONLY haft.open_call
    ADD CONSTRAINT open_call_pkey PRIMARY KEY (writer, listed);

ALTER TABLE ONLY haft.principal
    ADD CONSTRAINT principal_pkey PRIMARY KEY (id);

ALTER TABLE ONLY haft.principal
    ADD CONSTRAINT principal_tenant_stored_key UNIQUE (tenant, stored);

ALTER TABLE ONLY haft.provider_used
    ADD CONSTRAINT provider_used_pkey PRIMARY KEY (tenant, session, provider);

ALTER TABLE ONLY haft.record
    ADD CONSTRAINT record_pkey PRIMARY KEY (tenant, call, part);

ALTER TABLE ONLY haft.record_2026_11
    ADD CONSTRAINT record_2026_11_pkey PRIMARY KEY (tenant, call, part);

ALTER TABLE ONLY haft.record_2026_12
    ADD CONSTRAINT record_2026_12_pkey PRIMARY KEY (tenant, call, part);

ALTER TABLE ONLY haft.record_2027_01
    ADD CONSTRAINT record_2027_01_pkey PRIMARY KEY (tenant, call, part);

ALTER TABLE ONLY haft.record_2027_02
    ADD CONSTRAINT record_2027_02_pkey PRIMARY KEY (tenant, call, part);

ALTER TABLE ONLY haft.record_other
    ADD CONSTRAINT record_other_pkey PRIMARY KEY (tenant, call, part);

ALTER TABLE ONLY haft.request_key
    ADD CONSTRAINT request_key_pkey PRIMARY KEY (tenant, owner, key);

ALTER TABLE ONLY haft.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (version);

ALTER TABLE ONLY haft.seen
    ADD CONSTRAINT seen_pkey PRIMARY KEY (tenant, session, session_kind, person, agent, workspace, path);

ALTER TABLE ONLY haft.session_calls
    ADD CONSTRAINT session_calls_pkey PRIMARY KEY (session, workspace);

ALTER TABLE ONLY haft.session
    ADD CONSTRAINT session_pkey PRIMARY KEY (id);

ALTER TABLE ONLY haft.session
    ADD CONSTRAINT session_tenant_name_key UNIQUE (tenant, name);

ALTER TABLE ONLY haft.signing_key
    ADD CONSTRAINT signing_key_pkey PRIMARY KEY (id);

ALTER TABLE ONLY haft.tenant
    ADD CONSTRAINT tenant_name_key UNIQUE (name);

ALTER TABLE ONLY haft.tenant
    ADD CONSTRAINT tenant_pkey PRIMARY KEY (id);

ALTER TABLE ONLY haft.workspace
    ADD CONSTRAINT workspace_pkey PRIMARY KEY (id);

ALTER TABLE ONLY haft.workspace
    ADD CONSTRAINT workspace_tenant_name_key UNIQUE (tenant, name);

ALTER TABLE ONLY haft.writer
    ADD CONSTRAINT writer_name_key UNIQUE (name);

ALTER TABLE ONLY haft.writer
    ADD CONSTRAINT writer_pkey PRIMARY KEY (id);

CREATE INDEX accepted_unfinished ON haft.accepted USING btree (at, call) WHERE (request IS NOT NULL);

CREATE INDEX agent_question_words ON haft.approval USING btree (tenant, session, digest) WHERE (kind = 'question'::text);

CREATE INDEX approval_by_change ON haft.approval USING btree (changed);

CREATE INDEX approval_by_expiry ON haft.approval USING btree (expires_at);

CREATE INDEX approval_open ON haft.approval USING btree (tenant, session, digest) WHERE (state = ANY (ARRAY['pending'::text, 'approved'::text]));

CREATE INDEX approval_pending ON haft.approval USING btree (tenant, asked_at, id) WHERE (state = 'pending'::text);

CREATE INDEX approval_pending_of_session ON haft.approval USING btree (tenant, session, expires_at) WHERE (state = 'pending'::text);

CREATE INDEX call_fact_ended ON haft.call_fact USING btree (tenant, terminal, listed) WHERE (terminal > 1);

CREATE INDEX call_fact_ended_of_session ON haft.call_fact USING btree (tenant, session, terminal, listed) WHERE (terminal > 1);

CREATE INDEX call_fact_of_agent ON haft.call_fact USING btree (tenant, agent, listed);

CREATE INDEX call_fact_of_asked_tool ON haft.call_fact USING btree (tenant, asked_tool, listed);

CREATE INDEX call_fact_of_session ON haft.call_fact USING btree (tenant, session, listed);

CREATE INDEX call_fact_of_tenant ON haft.call_fact USING btree (tenant, listed);

CREATE INDEX call_fact_of_tool ON haft.call_fact USING btree (tenant, tool, listed);

CREATE INDEX call_fact_of_workspace ON haft.call_fact USING btree (tenant, workspace, listed);

CREATE INDEX call_fact_open ON haft.call_fact USING btree (tenant, listed) WHERE (terminal IS NULL);

CREATE INDEX call_words ON haft.call_text USING gin (words);

CREATE INDEX credential_by_end ON haft.credential USING btree (expires_at) WHERE (expires_at IS NOT NULL);

CREATE UNIQUE INDEX credential_by_id ON haft.credential USING btree (id);

CREATE INDEX credential_of_kind ON haft.credential USING btree (tenant, kind, made_at, id);

CREATE INDEX credential_revoked ON haft.credential USING btree (revoked_at) WHERE (revoked_at IS NOT NULL);

CREATE INDEX grant_by_change ON haft.grant_rule USING btree (tenant, person, changed);

CREATE INDEX grant_by_end ON haft.grant_rule USING btree (until_at) WHERE (until_at IS NOT NULL);

CREATE INDEX grant_of_session ON haft.grant_rule USING btree (tenant, bound_to) WHERE (scope = 'session'::text);

CREATE INDEX memory_of_agent ON haft.memory USING btree (tenant, person, agent, at, id);

CREATE INDEX record_by_position ON ONLY haft.record USING btree ("position");

CREATE INDEX record_2026_11_position_idx ON haft.record_2026_11 USING btree ("position");

CREATE INDEX record_of_tenant ON ONLY haft.record USING btree (tenant, "position", at) WHERE (part = 0);

CREATE INDEX record_2026_11_tenant_position_at_idx ON haft.record_2026_11 USING btree (tenant, "position", at) WHERE (part = 0);

CREATE INDEX record_of_session ON ONLY haft.record USING btree (tenant, session, "position") WHERE (part = 0);

CREATE INDEX record_2026_11_tenant_session_position_idx ON haft.record_2026_11 USING btree (tenant, session, "position") WHERE (part = 0);

CREATE INDEX record_ended ON ONLY haft.record USING btree (tenant, terminal, listed) WHERE (terminal > 1);

CREATE INDEX record_2026_11_tenant_terminal_listed_idx ON haft.record_2026_11 USING btree (tenant, terminal, listed) WHERE (terminal > 1);

CREATE INDEX record_2026_12_position_idx ON haft.record_2026_12 USING btree ("position");

CREATE INDEX record_2026_12_tenant_position_at_idx ON haft.record_2026_12 USING btree (tenant, "position", at) WHERE (part = 0);

CREATE INDEX record_2026_12_tenant_session_position_idx ON haft.record_2026_12 USING btree (tenant, session, "position") WHERE (part = 0);

CREATE INDEX record_2026_12_tenant_terminal_listed_idx ON haft.record_2026_12 USING btree (tenant, terminal, listed) WHERE (terminal > 1);

CREATE INDEX record_2027_01_position_idx ON haft.record_2027_01 USING btree ("position");

CREATE INDEX record_2027_01_tenant_position_at_idx ON haft.record_2027_01 USING btree (tenant, "position", at) WHERE (part = 0);

CREATE INDEX record_2027_01_tenant_session_position_idx ON haft.record_2027_01 USING btree (tenant, session, "position") WHERE (part = 0);

CREATE INDEX record_2027_01_tenant_terminal_listed_idx ON haft.record_2027_01 USING btree (tenant, terminal, listed) WHERE (terminal > 1);

CREATE INDEX record_2027_02_position_idx ON haft.record_2027_02 USING btree ("position");

CREATE INDEX record_2027_02_tenant_position_at_idx ON haft.record_2027_02 USING btree (tenant, "position", at) WHERE (part = 0);

CREATE INDEX record_2027_02_tenant_session_position_idx ON haft.record_2027_02 USING btree (tenant, session, "position") WHERE (part = 0);

CREATE INDEX record_2027_02_tenant_terminal_listed_idx ON haft.record_2027_02 USING btree (tenant, terminal, listed) WHERE (terminal > 1);

CREATE INDEX record_other_position_idx ON haft.record_other USING btree ("position");

CREATE INDEX record_other_tenant_position_at_idx ON haft.record_other USING btree (tenant, "position", at) WHERE (part = 0);

CREATE INDEX record_other_tenant_session_position_idx ON haft.record_other USING btree (tenant, session, "position") WHERE (part = 0);

CREATE INDEX record_other_tenant_terminal_listed_idx ON haft.record_other USING btree (tenant, terminal, listed) WHERE (terminal > 1);

CREATE INDEX request_key_by_age ON haft.request_key USING btree (at);

CREATE INDEX session_by_last ON haft.session_calls USING btree (tenant, last_at);

ALTER INDEX haft.record_pkey ATTACH PARTITION haft.record_2026_11_pkey;

ALTER INDEX haft.record_by_position ATTACH PARTITION haft.record_2026_11_position_idx;

ALTER INDEX haft.record_of_tenant ATTACH PARTITION haft.record_2026_11_tenant_position_at_idx;

ALTER INDEX haft.record_of_session ATTACH PARTITION haft.record_2026_11_tenant_session_position_idx;

ALTER INDEX haft.record_ended ATTACH PARTITION haft.record_2026_11_tenant_terminal_listed_idx;

ALTER INDEX haft.record_pkey ATTACH PARTITION haft.record_2026_12_pkey;

ALTER INDEX haft.record_by_position ATTACH PARTITION haft.record_2026_12_position_idx;

ALTER INDEX haft.record_of_tenant ATTACH PARTITION haft.record_2026_12_tenant_position_at_idx;

ALTER INDEX haft.record_of_session ATTACH PARTITION haft.record_2026_12_tenant_session_position_idx;

ALTER INDEX haft.record_ended ATTACH PARTITION haft.record_2026_12_tenant_terminal_listed_idx;

ALTER INDEX haft.record_pkey ATTACH PARTITION haft.record_2027_01_pkey;

ALTER INDEX haft.record_by_position ATTACH PARTITION haft.record_2027_01_position_idx;

ALTER INDEX haft.record_of_tenant ATTACH PARTITION haft.record_2027_01_tenant_position_at_idx;

ALTER INDEX haft.record_of_session ATTACH PARTITION haft.record_2027_01_tenant_session_position_idx;

ALTER INDEX haft.record_ended ATTACH PARTITION haft.record_2027_01_tenant_terminal_listed_idx;

ALTER INDEX haft.record_pkey ATTACH PARTITION haft.record_2027_02_pkey;

ALTER INDEX haft.record_by_position ATTACH PARTITION haft.record_2027_02_position_idx;

ALTER INDEX haft.record_of_tenant ATTACH PARTITION haft.record_2027_02_tenant_position_at_idx;

ALTER INDEX haft.record_of_session ATTACH PARTITION haft.record_2027_02_tenant_session_position_idx;

ALTER INDEX haft.record_ended ATTACH PARTITION haft.record_2027_02_tenant_terminal_listed_idx;

ALTER INDEX haft.record_pkey ATTACH PARTITION haft.record_other_pkey;

ALTER INDEX haft.record_by_position ATTACH PARTITION haft.record_other_position_idx;

ALTER INDEX haft.record_of_tenant ATTACH PARTITION haft.record_other_tenant_position_at_idx;

ALTER INDEX haft.record_of_session ATTACH PARTITION haft.record_other_tenant_session_position_idx;

ALTER INDEX haft.record_ended ATTACH PARTITION haft.record_other_tenant_terminal_listed_idx;

ALTER TABLE haft.accepted ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.approval ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.approval_used ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.call_fact ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.caught_up ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.chain ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.checkpoint ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.credential ENABLE ROW LEVEL SECURITY;

CREATE POLICY every_tenant ON haft.accepted TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.approval TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.approval_used TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.call_fact TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.caught_up TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.chain TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.checkpoint TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.credential TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.grant_change TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.grant_count TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.grant_rule TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.memory TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.memory_source TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.open_call TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.principal TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.provider_used TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.record TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.record_2026_11 TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.record_2026_12 TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.record_2027_01 TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.record_2027_02 TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.record_other TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.request_key TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.seen TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.session TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.session_calls TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.signing_key TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.tenant TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.workspace TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

CREATE POLICY every_tenant ON haft.writer TO haft_service, haft_owner USING (( SELECT haft.acts_for_every() AS acts_for_every));

ALTER TABLE haft.grant_change ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.grant_count ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.grant_rule ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.memory ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.memory_source ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.open_call ENABLE ROW LEVEL SECURITY;

CREATE POLICY own_tenants ON haft.accepted USING ((tenant = ANY (( SELECT haft.own_names() AS own_names)::text[])));

CREATE POLICY own_tenants ON haft.approval USING ((tenant = ANY (( SELECT haft.own_names() AS own_names)::text[])));

CREATE POLICY own_tenants ON haft.approval_used USING ((tenant = ANY (( SELECT haft.own_names() AS own_names)::text[])));

CREATE POLICY own_tenants ON haft.call_fact USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.caught_up USING ((( SELECT cardinality(haft.own_names()) AS cardinality) > 0));

CREATE POLICY own_tenants ON haft.chain USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.checkpoint USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.credential USING ((tenant = ANY (( SELECT haft.own_names() AS own_names)::text[])));

CREATE POLICY own_tenants ON haft.grant_change USING ((tenant = ANY (( SELECT haft.own_names() AS own_names)::text[])));

CREATE POLICY own_tenants ON haft.grant_count USING ((tenant = ANY (( SELECT haft.own_names() AS own_names)::text[])));

CREATE POLICY own_tenants ON haft.grant_rule USING ((tenant = ANY (( SELECT haft.own_names() AS own_names)::text[])));

CREATE POLICY own_tenants ON haft.memory USING ((tenant = ANY (( SELECT haft.own_names() AS own_names)::text[])));

CREATE POLICY own_tenants ON haft.memory_source USING ((tenant = ANY (( SELECT haft.own_names() AS own_names)::text[])));

CREATE POLICY own_tenants ON haft.open_call USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.principal USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.provider_used USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.record USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.record_2026_11 USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.record_2026_12 USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.record_2027_01 USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.record_2027_02 USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.record_other USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.request_key USING ((tenant = ANY (( SELECT haft.own_names() AS own_names)::text[])));

CREATE POLICY own_tenants ON haft.seen USING ((tenant = ANY (( SELECT haft.own_names() AS own_names)::text[])));

CREATE POLICY own_tenants ON haft.session USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.session_calls USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.signing_key USING ((( SELECT cardinality(haft.own_names()) AS cardinality) > 0));

CREATE POLICY own_tenants ON haft.tenant USING ((name = ANY (( SELECT haft.own_names() AS own_names)::text[])));

CREATE POLICY own_tenants ON haft.workspace USING ((tenant = ANY (( SELECT haft.own_ids() AS own_ids)::bigint[])));

CREATE POLICY own_tenants ON haft.writer USING ((( SELECT cardinality(haft.own_names()) AS cardinality) > 0));

ALTER TABLE haft.principal ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.provider_used ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.record ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.record_2026_11 ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.record_2026_12 ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.record_2027_01 ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.record_2027_02 ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.record_other ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.request_key ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.seen ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.session ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.session_calls ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.signing_key ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.tenant ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.workspace ENABLE ROW LEVEL SECURITY;

ALTER TABLE haft.writer ENABLE ROW LEVEL SECURITY;

GRANT USAGE ON SCHEMA haft TO haft_service;
GRANT USAGE ON SCHEMA haft TO haft_reader;

REVOKE ALL ON FUNCTION haft.find_text(wanted tsquery, before bigint, after bigint, newest_first boolean, most bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION haft.find_text(wanted tsquery, before bigint, after bigint, newest_first boolean, most bigint) TO haft_service;
GRANT ALL ON FUNCTION haft.find_text(wanted tsquery, before bigint, after bigint, newest_first boolean, most bigint) TO haft_reader;

REVOKE ALL ON FUNCTION haft.guard(guarded regclass) FROM PUBLIC;

REVOKE ALL ON FUNCTION haft.make_months(ahead integer) FROM PUBLIC;
GRANT ALL ON FUNCTION haft.make_months(ahead integer) TO haft_service;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE haft.accepted TO haft_service;
GRANT SELECT ON TABLE haft.accepted TO haft_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE haft.approval TO haft_service;
GRANT SELECT ON TABLE haft.approval TO haft_reader;

GRANT SELECT,USAGE ON SEQUENCE haft.approval_change TO haft_service;

GRANT SELECT,INSERT ON TABLE haft.approval_used TO haft_service;
GRANT SELECT ON TABLE haft.approval_used TO haft_reader;

GRANT SELECT,INSERT,UPDATE ON TABLE haft.call_fact TO haft_service;
GRANT SELECT ON TABLE haft.call_fact TO haft_reader;

GRANT INSERT ON TABLE haft.call_text TO haft_service;

GRANT SELECT,UPDATE ON TABLE haft.caught_up TO haft_service;
GRANT SELECT ON TABLE haft.caught_up TO haft_reader;

GRANT SELECT,INSERT,DELETE ON TABLE haft.chain TO haft_service;
GRANT SELECT ON TABLE haft.chain TO haft_reader;

GRANT SELECT,INSERT ON TABLE haft.checkpoint TO haft_service;
GRANT SELECT ON TABLE haft.checkpoint TO haft_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE haft.credential TO haft_service;

GRANT SELECT,INSERT,UPDATE ON TABLE haft.grant_change TO haft_service;
GRANT SELECT ON TABLE haft.grant_change TO haft_reader;

GRANT SELECT,INSERT,UPDATE ON TABLE haft.grant_count TO haft_service;
GRANT SELECT ON TABLE haft.grant_count TO haft_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE haft.grant_rule TO haft_service;
GRANT SELECT ON TABLE haft.grant_rule TO haft_reader;

GRANT SELECT,INSERT,DELETE ON TABLE haft.memory TO haft_service;
GRANT SELECT ON TABLE haft.memory TO haft_reader;

GRANT SELECT,INSERT ON TABLE haft.memory_source TO haft_service;
GRANT SELECT ON TABLE haft.memory_source TO haft_reader;

GRANT SELECT,INSERT,DELETE ON TABLE haft.open_call TO haft_service;
GRANT SELECT ON TABLE haft.open_call TO haft_reader;

GRANT SELECT,INSERT ON TABLE haft.principal TO haft_service;
GRANT SELECT ON TABLE haft.principal TO haft_reader;

GRANT SELECT,INSERT ON TABLE haft.provider_used TO haft_service;
GRANT SELECT ON TABLE haft.provider_used TO haft_reader;

GRANT SELECT,INSERT ON TABLE haft.record TO haft_service;
GRANT SELECT ON TABLE haft.record TO haft_reader;

GRANT SELECT ON TABLE haft.record_other TO haft_service;
GRANT SELECT ON TABLE haft.record_other TO haft_reader;

GRANT SELECT,USAGE ON SEQUENCE haft.record_position TO haft_service;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE haft.request_key TO haft_service;

GRANT SELECT ON TABLE haft.schema_version TO haft_service;
GRANT SELECT ON TABLE haft.schema_version TO haft_reader;

GRANT SELECT,INSERT,UPDATE ON TABLE haft.seen TO haft_service;
GRANT SELECT ON TABLE haft.seen TO haft_reader;

GRANT SELECT,INSERT ON TABLE haft.session TO haft_service;
GRANT SELECT ON TABLE haft.session TO haft_reader;

GRANT SELECT,INSERT,UPDATE ON TABLE haft.session_calls TO haft_service;
GRANT SELECT ON TABLE haft.session_calls TO haft_reader;

GRANT SELECT,INSERT ON TABLE haft.signing_key TO haft_service;
GRANT SELECT ON TABLE haft.signing_key TO haft_reader;

GRANT SELECT,INSERT ON TABLE haft.tenant TO haft_service;
GRANT SELECT ON TABLE haft.tenant TO haft_reader;

GRANT SELECT,INSERT,UPDATE ON TABLE haft.workspace TO haft_service;
GRANT SELECT ON TABLE haft.workspace TO haft_reader;

GRANT SELECT,INSERT,UPDATE ON TABLE haft.writer TO haft_service;
GRANT SELECT ON TABLE haft.writer TO haft_reader;

