CREATE TABLE ledger_logs (idempotency_key text PRIMARY KEY, data text);
