"""Commands for servers elsewhere: signing in and contexts."""
