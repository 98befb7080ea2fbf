"""Progress is said, not guessed: punctuation, the rules that derive it, substreams, idle sources, low-water marks.

Pure: no clock, no files. Imports the base only.
"""
