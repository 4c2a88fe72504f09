"""What a client and a daemon say to each other: messages, the channel, retries."""
