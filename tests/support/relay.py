"""Sits between agents and a daemon and changes their messages, to play a ddprun of another version
or one that lies. Without a daemon it answers the agents itself."""

import contextlib
import json
import socket
import threading


def line_of(message):
    """Returns a message as bytes of valid JSON, with as few escapes as possible."""
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


class Relay:
    """`of_agent` and `of_daemon` are given a message and return the one to pass on. Without
    `daemon_port`, `answer` returns the replies to an agent's message."""

    def __init__(self, daemon_port=None, of_agent=None, of_daemon=None, answer=None):
        self.daemon_port = daemon_port
        self.of_agent = of_agent or (lambda message: message)
        self.of_daemon = of_daemon or (lambda message: message)
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in [self.listener, *self.open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                agent, _ = self.listener.accept()
                self.open.append(agent)
                if self.daemon_port is None:
                    self.start(self.reply, agent)
                    continue
                try:
                    daemon = socket.create_connection(("127.0.0.1", self.daemon_port))
                except OSError:
                    agent.close()  # the daemon is being restarted
                    continue
                self.open.append(daemon)
                self.start(self.pass_on, agent, daemon, self.of_agent)
                self.start(self.pass_on, daemon, agent, self.of_daemon)

    @staticmethod
    def start(function, *arguments):
        threading.Thread(target=function, args=arguments, daemon=True).start()

    @staticmethod
    def pass_on(source, target, change):
        with contextlib.suppress(OSError, ValueError):
            for line in source.makefile("rb"):
                target.sendall(line_of(change(json.loads(line))))
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def reply(self, agent):
        with contextlib.suppress(OSError, ValueError):
            for line in agent.makefile("rb"):
                for message in self.answer(json.loads(line)):
                    agent.sendall(line_of(message))
                    if message["type"] == "refused":
                        agent.shutdown(socket.SHUT_WR)
