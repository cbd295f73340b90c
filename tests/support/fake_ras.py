"""A server that speaks NCCL's RAS protocol (nccl/src/ras/client_support.cc), so that tests need no
GPU."""

import contextlib
import json
import socket
import threading


def status(counts, pids=None):
    """The status of one communicator, given the number of AllReduces that each rank has launched.
    """
    ranks = [{"rank": rank, "host": "node", "pid": pids[rank] if pids else 100 + rank,
              "cuda_dev": rank, "nvml_dev": rank,
              "status": {"init_state": 0, "async_error": 0, "finalize_called": False,
                         "destroy_flag": False, "abort_flag": False},
              "collective_counts": {"Broadcast": 2, "Reduce": 0, "AllGather": 0,
                                    "ReduceScatter": 0, "AllReduce": count}}
             for rank, count in enumerate(counts)]
    return json.dumps({"nccl_version": "2.30.3", "communicators_count": 1, "communicators": [
        {"hash": "0x1234", "size": len(counts), "ranks_count": len(counts),
         "missing_ranks_count": 0, "ranks": ranks, "missing_ranks": []}]})


class FakeRas:
    def __init__(self, answer):
        """`answer` writes the status to the connection's file when it is asked for."""
        self.answer = answer
        self.asked = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with contextlib.suppress(OSError), connection, connection.makefile("rw") as file:
            for line in file:
                words = line.strip().upper()
                self.asked.append(words)
                if words.startswith("CLIENT PROTOCOL"):
                    file.write("SERVER PROTOCOL 2\n")
                elif words.endswith("STATUS"):
                    self.answer(file)
                    return
                else:
                    file.write("OK\n")
                file.flush()

    def close(self):
        self.listener.close()
