"""The pages of an organization besides its pipelines: members, invites and secrets; and billing."""
