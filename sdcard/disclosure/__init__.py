"""Who may see what. Knows cards; knows no JWT."""
