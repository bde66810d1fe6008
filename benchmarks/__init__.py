"""`make bench`: the cost of the service, each figure measured in turns with its baseline."""
