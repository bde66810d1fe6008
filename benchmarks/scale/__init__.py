"""The service over a simulated fleet."""
