"""The part of the launcher in an engine's instance: init, and the service's programs beside it."""
