# ranks=1
error = ValueError("bad batch:\n  ids   [3, 1]\n  shape (4, 0)")
error.add_note("while reading shard 7: Connection reset by peer")
raise error
