"""All that touches the world: clock, randomness, files, memory of nonces. The rest of the core never imports it."""
