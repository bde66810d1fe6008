"""The pages of a pipeline's notifications: webhooks, Slack and e-mail, and what was sent."""
