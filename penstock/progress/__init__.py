"""Progress: punctuation, the rules that derive it from rows, substreams, idle sources, low-water marks.

Pure: no clock, no files. Imports only the base modules.
"""
