"""Status lists: publishing them, and changing what they say."""
