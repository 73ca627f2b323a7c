"""What keeps a server answering: connections below the descriptor limit, and a log that repeats itself seldom."""
