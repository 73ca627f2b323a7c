"""What the paper claims, and how records judge it."""
