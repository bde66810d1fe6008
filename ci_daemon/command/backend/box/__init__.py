"""The nouns on the box: read from the state directory and written there, as the owner of the host."""
