"""Pages for people: agents, approvals, the audit thread, behind a session.

What they may do, the API's services say.
"""
