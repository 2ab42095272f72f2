"""The pages that are made from the code, and the site of all pages."""
