"""Error responses: the catalog, one exception, one envelope, and the pages that explain them."""
