-- Tokens come from a sequence: it goes on whatever becomes of the rows.
CREATE SEQUENCE lease_tokens;

CREATE TABLE jobs (
    id        bigint PRIMARY KEY,
    position  bigint NOT NULL, -- how many items are done
    total     bigint NOT NULL, -- of the items done
    quota     bigint NOT NULL, -- how many items may be done
    holder    text,            -- who has the lease, and since when
    leased_at timestamptz,
    fence     bigint NOT NULL DEFAULT 0
);

CREATE TABLE items (
    job    bigint NOT NULL REFERENCES jobs,
    number bigint NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (job, number)
);
