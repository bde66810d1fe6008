"""Commands that set the service up, under the heading "Set up"."""
