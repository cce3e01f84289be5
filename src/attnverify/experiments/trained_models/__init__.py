"""Three trained models of three families: which they are, and what the theorems say about each."""
