-- Where a secret's value is fetched as a job starts: JSON of its kind, address and place; null if the value is here.
ALTER TABLE secrets ADD COLUMN source TEXT;
