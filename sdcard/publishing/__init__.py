"""Published cards at well-known addresses: content negotiation and tokens."""
