"""What every experiment uses: settings, training, tables of results, the command."""
