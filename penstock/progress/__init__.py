"""Progress is said, not guessed: punctuation, the rules that derive it, low-water marks. Pure; imports errors only."""
