"""GitHub: an app whose installations bring repositories and pushes, and whose check runs show builds."""
