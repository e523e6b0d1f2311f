CREATE TABLE accounts (
    id      bigint PRIMARY KEY,
    owner   text NOT NULL,
    balance bigint NOT NULL
);

CREATE TABLE redemptions (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    coupon  text NOT NULL,
    account bigint NOT NULL REFERENCES accounts
);
