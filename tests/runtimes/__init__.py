"""The JavaScript package ``packages/verifier`` in Node, Deno, Bun, workerd and Chromium, and against this library."""
