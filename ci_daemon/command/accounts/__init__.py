"""Commands about users, organizations and money, under the heading "People and money"."""
