-- Calls, grants and what was seen belong to a workspace. What was recorded before workspaces had ids is
-- under `local`. No workspace of a host is called so, so nothing counts as seen that was seen before:
-- an agent reads such a file once more before it edits it.
ALTER TABLE call ADD COLUMN workspace TEXT NOT NULL DEFAULT 'local';

-- The workspace of a grant as people know it; `bound_to` is its id. A grant for a workspace without
-- this is from before, and `bound_to` is its root on this machine (`grants/row.rs`).
ALTER TABLE grant_rule ADD COLUMN shown TEXT;

ALTER TABLE seen RENAME TO seen_anywhere;
CREATE TABLE seen (
    tenant       TEXT NOT NULL,
    session      TEXT NOT NULL,
    session_kind TEXT NOT NULL,
    user         TEXT NOT NULL,
    agent        TEXT NOT NULL,
    workspace    TEXT NOT NULL,
    path         TEXT NOT NULL,
    version      TEXT NOT NULL,
    PRIMARY KEY (tenant, session, session_kind, user, agent, workspace, path)
) STRICT, WITHOUT ROWID;
INSERT INTO seen SELECT tenant, session, session_kind, user, agent, 'local', path, version
    FROM seen_anywhere;
DROP TABLE seen_anywhere;
