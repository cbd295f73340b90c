"""torchrun's options: the values with which torchrun and ddprun are started in each way, what is
compared, and what differs on purpose.

There is one row for each option; if the installed PyTorch has an option without a row,
test_torchrun_options.py fails.
"""

from dataclasses import dataclass, field

PORT = "{port}"  # a free one


@dataclass(frozen=True)
class Run:
    """A job that both launchers run, with the values of the rows that name it, and with the probe
    as its script."""

    nodes: int = 1
    script: str = ""  # empty: the probe, by its full path
    variables: dict = field(default_factory=dict)
    forms: tuple = ("dashes", "underscores", "shortened", "variables")
    # The module of PyTorch's launcher, and what ddprun needs in addition to behave like it.
    module: str = "torch.distributed.run"
    ours: tuple = ()
    # Variables whose values differ, in addition to those of ALWAYS; and the probe's other facts.
    differs: set = field(default_factory=set)
    other_facts: set = field(default_factory=set)


@dataclass(frozen=True)
class Row:
    values: dict  # by run; a tuple has one for each node; True: a flag
    compared: str
    differs: str = ""  # on purpose; the README's table says so in these words
    wrong: str = ""  # a value that both refuse
    refused: str = ""  # by ddprun only, with these words


# Variables of workers that differ, as in the README's table.
ALWAYS = {
    "DDPRUN_INSTANCE", "DDPRUN_NODE_ID", "DDPRUN_PROGRESS", "DDPRUN_ROUND", "DDPRUN_RUN_ID",
    "DDPRUN_SESSION", "DDPRUN_STOP",
    "GLOO_ENABLE_STORE_V2_API",  # gloo starts with fewer requests
    "TORCHELASTIC_SIGNALS_TO_HANDLE",  # torchrun's own setting, which reaches its workers
}  # fmt: skip
# On nodes with GPUs also this one: the job has a port of its own.
ON_GPUS = {"NCCL_RAS_ADDR"}
# What each launcher chooses itself if nothing is given: a single node needs no common id and
# address, and without --log-dir the error files go to a folder of the launcher's choice.
NO_ID = {"TORCHELASTIC_RUN_ID"}
NO_ADDRESS = {"MASTER_ADDR"}
NO_LOGS = {"TORCHELASTIC_ERROR_FILE"}
# If the timers of torch.distributed.elastic.timer are on, and their pipe is given no name.
NO_PIPE = {"TORCHELASTIC_TIMER_FILE"}
TIMERS = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}

RUNS = {
    "one node": Run(),
    "standalone": Run(script="probe", differs=NO_ID | NO_ADDRESS | NO_LOGS),
    "program": Run(script="./probe.py", variables={"CUDA_VISIBLE_DEVICES": "4, 7,GPU-0a"},
                   differs=NO_ID | NO_ADDRESS | NO_LOGS),
    # torchrun's workers are processes of Python's multiprocessing, which take seconds to import
    # PyTorch.
    "run path": Run(forms=("dashes",), differs=NO_ID | NO_ADDRESS | NO_LOGS,
                    other_facts={"leads its session", "descriptors"}),
    "static": Run(nodes=2, differs=NO_LOGS, variables={
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "OMP_NUM_THREADS": "3",
        # The variables if timers are off.
        "TORCHELASTIC_TIMER_FILE": "timers", "TORCHELASTIC_HEALTH_CHECK_PORT": "0"}),
    "static backend": Run(nodes=2, differs=NO_LOGS),
    "two nodes": Run(nodes=2, variables={
        "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<rank${rank}> "}),
    "store of rank 0": Run(variables={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", **TIMERS},
                           differs=NO_ID | NO_ADDRESS | NO_LOGS | NO_PIPE),
    # The probe's first attempt fails.
    "restart": Run(variables={"PROBE_FAILS": "1", "TORCHELASTIC_TIMER_FILE": "timers", **TIMERS}),
    "launch": Run(module="torch.distributed.launch", ours=("--pass-local-rank",),
                  differs=NO_ID | NO_LOGS),
    "launch by env": Run(module="torch.distributed.launch", differs=NO_ID | NO_LOGS),
}
LAUNCH = ("launch", "launch by env")


def each(runs, value):
    return dict.fromkeys(runs, value)


ROWS = {
    "nnodes": Row({"one node": "1:1", "standalone": "1", "static": "2", "static backend": "2",
                   "two nodes": "1:2", "restart": "1", **each(LAUNCH, "1")},
                  "GROUP_WORLD_SIZE, WORLD_SIZE", wrong="2:20:30"),
    "nproc-per-node": Row({"one node": "3", "standalone": "cpu", "program": "3", "run path": "1",
                           "static": ("2", "3"), "static backend": ("1", "2"),
                           "two nodes": ("2", "3"), **each(LAUNCH, "2")},
                          "ranks and sizes; OMP_NUM_THREADS", wrong="many"),
    "rdzv-backend": Row({"one node": "c10d", "static backend": "static", "two nodes": "c10d",
                         "restart": "c10d"},
                        "TORCHELASTIC_USE_AGENT_STORE", wrong="zookeeper"),
    "rdzv-endpoint": Row({"one node": "localhost:0", "static backend": f"localhost:{PORT}",
                          "two nodes": f"127.0.0.1:{PORT}", "restart": f"localhost:{PORT}"},
                         "MASTER_ADDR and MASTER_PORT of the static form", wrong="host:port"),
    # An empty value, as from a shell variable that is not set, counts as not given.
    "rdzv-id": Row({"one node": "job7", "two nodes": "job_8.x", "restart": "job9",
                    "standalone": "", "program": ""},
                   "TORCHELASTIC_RUN_ID; the log folder"),
    "rdzv-conf": Row({"one node": "read_timeout=60,join_timeout=100,last_call_timeout=20",
                      "static": "timeout=100", "two nodes": "keep_alive_interval=5"},
                     "that the job runs", wrong="join_timeout="),
    "standalone": Row(each(("standalone", "store of rank 0"), True), "as without an endpoint"),
    "max-restarts": Row({"one node": "3", "static": "2", "restart": "1"},
                        "TORCHELASTIC_MAX_RESTARTS, TORCHELASTIC_RESTART_COUNT", wrong="-1",
                        differs="counted once for the job"),
    "monitor-interval": Row({"one node": "0.05", "two nodes": "0.05", **each(LAUNCH, "0.05")},
                            "that the job runs", wrong="soon", differs="`--monitor-interval`"),
    "start-method": Row({"one node": "fork", "run path": "spawn", **each(LAUNCH, "spawn")},
                        "that the job runs", wrong="thread", differs="`--start-method`"),
    "event-log-handler": Row({"one node": "null", "static": "console"}, "that the job runs",
                             differs="`--event-log-handler`"),
    # TorchX passes it empty.
    "role": Row({"one node": "trainer", "two nodes": ("reader", "trainer"), "standalone": "",
                 "program": ""},
                "ROLE_NAME, ROLE_RANK, ROLE_WORLD_SIZE; the prefix of lines"),
    "module": Row({"standalone": True}, "how the script is run"),
    "no-python": Row({"program": True}, "how the script is run"),
    "run-path": Row({"run path": True}, "how the script is run", differs="`--run-path`"),
    "log-dir": Row({"one node": "{folder}/logs", "two nodes": "{folder}/logs",
                    "restart": "{folder}/logs"},
                   "files and what is in them", differs="DIR/RUN_NODE_RANDOM"),
    "redirects": Row({"one node": "0:1,1:3", "two nodes": "3"}, "files; output", wrong="0:1,"),
    "tee": Row({"one node": "1:2,2:3", "two nodes": ("1", "0:2,2:3"), "restart": "3"},
               "files; output", wrong="11"),
    "log-line-prefix-template": Row(
        {"one node": "<${role_name} ${local_rank} ${rank} ${hostname}> ", "restart": "<${rank}> "},
        "output of teed streams", differs="`[node:rank]` before each"),
    "local-ranks-filter": Row({"one node": "0,2"}, "output; files have all", wrong="one"),
    "duplicate-stdout-filters": Row({"one node": "apple,fig,, ripe", "two nodes": "kiwi"},
                                    "attempt_0/filtered_stdout.log"),
    "duplicate-stderr-filters": Row({"one node": "kiwi"}, "attempt_0/filtered_stderr.log"),
    "node-rank": Row({"static": ("0", "1"), "static backend": ("0", "1"), **each(LAUNCH, "0")},
                     "GROUP_RANK", wrong="first", differs="a number given twice"),
    "master-addr": Row({"static": "localhost", **each(LAUNCH, "localhost")}, "MASTER_ADDR"),
    "master-port": Row({"static": PORT, **each(LAUNCH, PORT)}, "MASTER_PORT", wrong="http"),
    "local-addr": Row({"one node": "127.0.0.1", "two nodes": ("127.0.0.1", "127.0.0.2"),
                       "restart": "127.0.0.1"},
                      "MASTER_ADDR"),
    "logs-specs": Row({}, "", refused="loads no Python entry points", differs="`--logs-specs`"),
    "numa-binding": Row({}, "nothing: torchrun's needs a GPU and numactl", wrong="room"),
    "signals-to-handle": Row({"one node": "SIGTERM,SIGUSR1"}, "that the job runs",
                             differs="`--signals-to-handle`"),
    "shutdown-timeout": Row({"one node": "7", "restart": "9"}, "that the job runs", wrong="-5"),
    "virtual-local-rank": Row({"program": True}, "LOCAL_RANK, CUDA_VISIBLE_DEVICES"),
    "print-completion": Row({}, "that bash and zsh have a script", wrong="fish"),
    # torch.distributed.launch's.
    "use-env": Row({"launch by env": True}, "--local-rank=N among the script's arguments"),
}
