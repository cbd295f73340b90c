"""The status server of Kubeflow's Trainer, as in its proposal 2779: it takes progress by POST."""

import http.server
import json
import queue
import shutil
import ssl
import subprocess
import threading

import pytest


def certificate(folder, name):
    """Makes a key, and a self-signed certificate for 127.0.0.1."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here, which makes the server's certificate")
    key, file = folder / f"{name}.key", folder / f"{name}.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", file], check=True, capture_output=True)
    return key, file


class StatusServer:
    """`words` contains the requests: status, path, Authorization, the object. `answers` contains
    the statuses of the next responses; 200 if it is empty."""

    def __init__(self, port, key_and_certificate=None):
        self.words = queue.Queue()
        self.answers = queue.Queue()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.headers["Content-Type"] == "application/json"
                status = 200 if owner.answers.empty() else owner.answers.get()
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                owner.words.put((status, self.path, self.headers["Authorization"], body))

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        if key_and_certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(key_and_certificate[1], key_and_certificate[0])
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                     do_handshake_on_connect=False)
        scheme = "https" if key_and_certificate else "http"
        self.path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/job/status"
        self.url = f"{scheme}://127.0.0.1:{port}{self.path}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
