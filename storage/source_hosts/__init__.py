"""Source hosts: accounts at them, connected repositories, deliveries, and the origins of builds."""
