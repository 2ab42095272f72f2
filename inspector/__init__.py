"""The inspector: a page that reads SD-Cards and agent cards in the browser. Its sources, and how they become one."""
