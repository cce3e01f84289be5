"""Models of others: traced through their own forward pass, proved by reconstruction, reported.

The commands are ``attnverify inspect``, ``compare`` and ``watch``; in Python these are ``inspect``,
``compare`` and ``Watch`` of :mod:`attnverify`, and ``trace``, ``adapter`` and ``clip_scores``.
"""
