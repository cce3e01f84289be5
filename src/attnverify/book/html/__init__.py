"""What is done to the built pages: lighter heads, mended markup, sizes of pictures."""
