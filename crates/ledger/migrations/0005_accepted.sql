-- Calls that were accepted for whoever claims them. `request` is the request as it arrived, secrets and
-- all, because it is still to be run; it is taken out when the call is settled, and `digest` stays.
-- `epoch` is the claim that holds the call, 0 before the first. `mac` is made with the ledger's key over
-- every other column but `request`, which `digest` binds: a row that is not signed runs nothing.
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
