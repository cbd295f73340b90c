# ranks=1
with open("/dev/full", "wb") as checkpoint:
    checkpoint.write(b"x" * 100000)
