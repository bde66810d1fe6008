CREATE TABLE books (title text PRIMARY KEY);
