CREATE TABLE loans (
    title text REFERENCES books,
    since date NOT NULL DEFAULT current_date
);
