CREATE TABLE accounts (
    id      bigint PRIMARY KEY,
    owner   text NOT NULL,
    balance bigint NOT NULL
);

CREATE TABLE payments (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account bigint NOT NULL REFERENCES accounts,
    amount  bigint NOT NULL,
    cause   text NOT NULL
);

-- What has been seen, for the variants that look there first.
CREATE TABLE seen (
    kind    text NOT NULL,
    name    text NOT NULL,
    payment bigint NOT NULL
);
CREATE INDEX ON seen (kind, name);

CREATE TABLE jobs (
    id      bigint PRIMARY KEY,
    account bigint NOT NULL REFERENCES accounts,
    amount  bigint NOT NULL
);
