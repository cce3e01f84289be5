"""``python -m attnverify``: the console command."""

from attnverify.cli import main

main()
