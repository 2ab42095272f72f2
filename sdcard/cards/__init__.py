"""Card documents: parsing, detection of the format, checks and conversion. Knows no JWT."""
