-- The providers a session has used, other than the built-in one: what every start that waits for
-- the disk is compared with. Sessions without such calls have nothing in it.
CREATE INDEX call_used ON call (tenant, session, substr(tool, 1, instr(tool, '/') - 1))
    WHERE started_at IS NOT NULL AND tool NOT GLOB 'builtin/*';
