"""Small helpers that everything else uses: errors, files, tables, words, seeds, versions."""
