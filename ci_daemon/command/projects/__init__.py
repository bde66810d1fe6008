"""Commands for a tree of files: they write, check, run and submit its pipelines."""
