"""Published cards at well-known addresses: negotiation and tokens, no sockets."""
