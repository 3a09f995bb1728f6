"""How a message leaves: the store, the mail server and the command line."""
