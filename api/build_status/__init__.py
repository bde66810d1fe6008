"""The status of pipelines for other programs: badges, and the feed for monitors."""
