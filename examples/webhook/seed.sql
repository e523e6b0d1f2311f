INSERT INTO accounts (id, owner, balance) VALUES (1, 'alice', 100), (2, 'bob', 100);
INSERT INTO jobs (id, account, amount) VALUES (7, 1, 25);
