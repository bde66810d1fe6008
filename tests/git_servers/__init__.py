"""Real git servers on the loopback: `git http-backend` behind TLS, and OpenSSH's sshd."""
