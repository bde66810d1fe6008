"""The nouns of a server: operations of its API, as the person who is signed in."""
