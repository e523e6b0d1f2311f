CREATE TABLE links (code text PRIMARY KEY, target text NOT NULL);
CREATE TABLE shortlinks (code text PRIMARY KEY, target text NOT NULL, deleted_at timestamptz);
CREATE UNIQUE INDEX shortlinks_target ON shortlinks (target) WHERE deleted_at IS NULL;
