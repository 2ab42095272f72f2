"""The inspector: a page that reads SD-Cards and agent cards in the browser."""
