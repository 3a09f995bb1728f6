"""Contact forms: the fields of a submission, its checks, and the message that it becomes."""
