"""Status lists: publication, and changes of statuses."""
