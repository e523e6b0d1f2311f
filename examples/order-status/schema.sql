CREATE TABLE stock (
    item text PRIMARY KEY,
    n    integer NOT NULL
);

CREATE TABLE orders (
    id       bigint PRIMARY KEY,
    item     text NOT NULL REFERENCES stock,
    quantity integer NOT NULL,
    total    bigint NOT NULL,
    status   text NOT NULL
);

CREATE TABLE payments (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id bigint NOT NULL REFERENCES orders,
    amount   bigint NOT NULL
);

CREATE TABLE order_history (
    object     text NOT NULL,
    seq        bigint NOT NULL,
    from_state text NOT NULL,
    to_state   text NOT NULL,
    at         timestamptz NOT NULL,
    by_whom    text NOT NULL,
    note       text NOT NULL,
    PRIMARY KEY (object, seq)
);
