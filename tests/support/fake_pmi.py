"""A PMI-1 server like flux-shell, for launchers that are in no package."""

import socket
import threading


class FakePmi:
    """Serves `size` processes, each on its own descriptor. `answer(rank, words)` may return a wrong
    answer instead: a line, or "" to close the connection."""

    def __init__(self, size, answer=lambda rank, words: None):
        self.size = size
        self.answer = answer
        self.values = {}
        self.fence = threading.Barrier(size)
        self.finalised = set()
        self.ends = []
        self.threads = []
        for rank in range(size):
            ours, theirs = socket.socketpair()
            self.ends.append(theirs)
            self.threads.append(threading.Thread(target=self._serve, args=(rank, ours)))
            self.threads[-1].start()

    def _serve(self, rank, connection):
        with connection, connection.makefile("rwb", 0) as lines:
            for line in lines:
                words = dict(word.split("=", 1) for word in line.decode().split())
                said = self.answer(rank, words)
                said = self._right(rank, words) if said is None else said
                if not said:
                    self.fence.abort()
                    return
                lines.write(f"{said}\n".encode())

    def _right(self, rank, words):
        command = words["cmd"]
        if command == "init":
            return "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1"
        if command == "get_maxes":
            return "cmd=maxes rc=0 kvsname_max=64 keylen_max=64 vallen_max=1024"
        if command == "get_my_kvsname":
            return "cmd=my_kvsname rc=0 kvsname=kvs-1"
        if command == "put":
            self.values[words["key"]] = words["value"]
            return "cmd=put_result rc=0"
        if command == "barrier_in":
            try:
                self.fence.wait()
            except threading.BrokenBarrierError:
                return ""
            return "cmd=barrier_out rc=0"
        if command == "get":
            return f"cmd=get_result rc=0 value={self.values[words['key']]}"
        self.finalised.add(rank)
        return "cmd=finalize_ack rc=0"

    def close(self):
        for end in self.ends:
            end.close()
        self.fence.abort()
        for thread in self.threads:
            thread.join()
