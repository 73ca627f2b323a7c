"""What a step does: optimizer, averaged weights, what is mined, what is counted and watched."""
