"""Real git servers on the loopback: `git http-backend` behind TLS, OpenSSH's sshd, and git LFS."""
