-- Questions to people are of two kinds. What that means for rows from before is said in SQLite's
-- `0004_question_kind.sql`.
ALTER TABLE approval ADD COLUMN kind text NOT NULL DEFAULT 'approval';
CREATE INDEX agent_question_words ON approval (tenant, session, digest) WHERE kind = 'question';
INSERT INTO schema_version (version) VALUES (4);
