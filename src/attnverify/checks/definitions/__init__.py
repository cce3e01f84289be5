"""What formulas are, written out entry by entry: the second opinion that shares no code."""
