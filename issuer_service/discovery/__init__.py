"""Discovery: from a query of an audience to the SD-Cards of matching agents."""
