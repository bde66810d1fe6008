"""Commands that show the state of the service, under the heading "See"."""
