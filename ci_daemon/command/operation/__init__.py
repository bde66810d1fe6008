"""Commands that run the service and keep it in order, under the heading "Run"."""
