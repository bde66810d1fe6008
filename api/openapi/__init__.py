"""The OpenAPI document, made from the declarations at the responders, and its reference pages."""
