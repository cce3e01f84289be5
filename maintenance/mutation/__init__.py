"""Small errors planted in the source, to see whether evidence or a test notices them."""
