"""Reads a file while another program writes it."""


class Follower:
    def __init__(self, path):
        self.file, self.rest = open(path, errors="replace"), ""

    def lines(self):
        """The lines that were completed since the last call."""
        *lines, self.rest = (self.rest + self.file.read()).split("\n")
        return lines

    def close(self):
        self.file.close()
