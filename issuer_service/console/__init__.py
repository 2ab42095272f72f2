"""Pages for people: agents, approvals and the audit thread, behind a session. Nothing here decides what the API would."""
