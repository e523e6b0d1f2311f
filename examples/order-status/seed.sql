INSERT INTO stock (item, n) VALUES ('lamp', 5);
INSERT INTO orders (id, item, quantity, total, status) VALUES (1, 'lamp', 2, 90, 'new');
