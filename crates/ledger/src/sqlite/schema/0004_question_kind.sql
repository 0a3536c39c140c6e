-- Questions to people are of two kinds: `approval`, or `question` for what an agent asks. A row of one kind
-- is never read as the other. Rows from before are approvals, and their signature, which is over every other
-- column but `changed`, holds for nothing else. A process of an earlier version that still runs asks for
-- approvals without naming a kind.
ALTER TABLE approval ADD COLUMN kind TEXT NOT NULL DEFAULT 'approval';
CREATE INDEX agent_question_words ON approval (tenant, session, digest) WHERE kind = 'question';
