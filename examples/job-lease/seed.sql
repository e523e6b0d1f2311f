INSERT INTO jobs (id, position, total, quota) VALUES (1, 0, 0, 100), (2, 0, 0, 100);
INSERT INTO items (job, number, amount)
    SELECT job, number, number FROM generate_series(1, 2) AS job, generate_series(1, 30) AS number;
