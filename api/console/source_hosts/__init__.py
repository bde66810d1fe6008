"""The pages of repositories and of accounts at source hosts."""
