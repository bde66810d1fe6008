"""Bitbucket Cloud, whose workspaces are connected with OAuth."""
