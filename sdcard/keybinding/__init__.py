"""Key binding: RFC 9901 4.3 and 7.3. Knows no card."""
