"""Parts of the build: execution of notebooks, Python for the pages, PDF."""
