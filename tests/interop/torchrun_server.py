"""Imports torchrun once, and is forked for each run that its client (torchrun.py) asks for: of
torchrun, or of a script that it sends.

Questions and answers are lines of JSON on the socket whose descriptor is the argument: a run with
its arguments, answered by its process id; a process id, answered by its exit code, or null.
"""

import json
import os
import socket
import sys


def become(request):
    """Never returns: the forked process is a launcher."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    for number, path, mode in ((0, os.devnull, os.O_RDONLY), (1, request["out"], os.O_WRONLY),
                               (2, request["err"], os.O_WRONLY)):
        handle = os.open(path, mode | os.O_CREAT, 0o666)
        os.dup2(handle, number)
        os.close(handle)
    sys.argv = [request["module"], *request["arguments"]]
    code = 0
    try:
        if request["script"] is None:
            sys.modules[request["module"]].main(request["arguments"])
        else:
            exec(compile(request["script"], "script", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # Python's own end
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve(control):
    import torch.distributed.launch  # noqa: F401
    import torch.distributed.run  # noqa: F401

    with control.makefile("rw") as lines:
        for line in iter(lines.readline, ""):
            request = json.loads(line)
            if "pid" in request:
                pid, status = os.waitpid(request["pid"], os.WNOHANG)
                answer = os.waitstatus_to_exitcode(status) if pid else None
            else:
                answer = os.fork()
                if answer == 0:
                    control.close()
                    become(request)
            print(json.dumps(answer), file=lines, flush=True)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as mine:
        mine.set_inheritable(False)
        serve(mine)
