"""Card documents: parsing, detection of the format, checks, conversion. No JWT."""
