"""The HTTP server on waitress: connections, parsing, workers, stream slots, files and pages."""
