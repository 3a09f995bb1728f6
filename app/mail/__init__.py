"""Mail: the messages on disk, the connections to the mail server, and the operator's commands."""
