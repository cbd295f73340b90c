"""What a chaos episode does: a pure function of its seed.

Real processes respond to a plan a little differently each time. The plan itself (how the job runs,
and the order, kind, duration and targets of the faults) depends only on the seed, however long the
episode runs.
"""

import random
from dataclasses import dataclass

NODES = ("node-a", "node-b", "node-c")


@dataclass(frozen=True)
class Setting:
    """How the job of an episode is run."""

    seed: int
    embedded: bool  # the daemon lives in node-a's agent
    nodes_min: int  # of three nodes
    workers: int  # on each node
    on_join: str  # wait | restart
    node_timeout: float
    on_term: str  # what a worker does on SIGTERM: die | slow (then die) | ignore
    strays: bool  # each worker leaves a child in a session of its own
    finish: str  # what happens to the daemon while the workers finish: quiet | kill | stop
    host_embeds: bool  # node-a is on the daemon's host, and runs a daemon if there is none
    pace: str  # calm: most faults strike a complete round; hectic: few do

    @property
    def nnodes(self):
        return f"{self.nodes_min}:{len(NODES)}"

    @property
    def heartbeat(self):
        return self.node_timeout / 10

    @property
    def conf(self):
        # orphan_limit: nothing reports the workers' end if agents and guardians are killed
        # together.
        return (f"node_timeout={self.node_timeout:g},reconnect_grace=1,last_call_timeout=0.3,"
                "stop_grace=0.5,drain_grace=1,kill_wait=2,settle=0.2,settle_max=1,start_timeout=20,"
                "join_timeout=120,linger=3,orphan_limit=15")


@dataclass(frozen=True)
class Step:
    """One fault. `when` says what `delay` follows: settled (the run is complete again), delay (the
    fault before), gap (the last worker of a round is gone), or round (the first worker of a new
    round has started)."""

    number: int
    when: str
    delay: float
    kind: str
    node: int  # index into NODES
    local: float  # 0 to 1: selects one of the node's workers
    hold: float  # seconds from SIGSTOP to SIGCONT
    code: int  # with which a worker exits
    back_after: float  # seconds until processes that died of it are started again

    def __str__(self):
        when = {"settled": "when all is well, then", "delay": "after",
                "gap": "between rounds, then", "round": "at a new round, then"}[self.when]
        return f"#{self.number} {when} {self.delay:.2f} s: {self.kind} at {NODES[self.node]}"


# (kind, weight)
KINDS = (
    ("worker_kill", 10),
    ("worker_exit", 6),
    ("worker_term", 5),  # SIGTERM to the worker's process group
    ("worker_stop", 5),
    ("agent_kill", 10),
    ("agent_term", 6),
    ("node_term", 5),  # SIGTERM to the agent, then to its workers, as a cgroup's end does
    ("node_term_workers_first", 5),
    ("agent_stop", 10),
    ("guardian_kill", 6),
    ("guardian_stop", 4),
    ("daemon_kill", 10),
    ("daemon_stop", 8),
    ("node_kill", 5),  # agent, guardian and workers at once
    ("all_agents_kill", 3),
    ("all_agents_stop", 2),
    ("run_interrupt", 2),  # Ctrl-C at one agent: ends the run, and the scheduler starts it again
    ("run_term", 2),  # SIGTERM to all agents, with the same effect
)

ENDS_RUN = ("run_interrupt", "run_term")


def setting_of(seed):
    draw = random.Random(f"setting {seed}")
    embedded = draw.random() < 0.2
    # With fewer nodes, an embedded daemon that comes back empty cannot know what still runs.
    nodes_min = draw.choice((1, 1, 2, len(NODES)))
    nodes_min = len(NODES) if embedded else nodes_min
    return Setting(
        seed=seed,
        embedded=embedded,
        nodes_min=nodes_min,
        workers=draw.choice((1, 2, 2, 3)),
        on_join=draw.choice(("wait", "restart")),
        node_timeout=draw.choice((2.0, 3.0)),
        on_term=draw.choice(("die", "die", "slow", "ignore")),
        strays=draw.random() < 0.5,
        finish=draw.choice(("quiet", "kill", "stop")),
        pace=draw.choice(("calm", "hectic")),
        # It needs all nodes, for the same reason.
        host_embeds=draw.random() < 0.5 and nodes_min == len(NODES) and not embedded,
    )


def steps_of(setting):
    """Yields the faults of an episode, without end."""
    draw = random.Random(f"steps {setting.seed}")
    kinds = [(kind, weight) for kind, weight in KINDS
             if not (kind == "worker_term" and setting.on_term == "ignore")]
    names, weights = zip(*kinds)
    weights_of_pace = {"calm": (60, 20, 5, 15), "hectic": (15, 40, 20, 25)}[setting.pace]
    number = 0
    while True:
        number += 1
        when = draw.choices(("settled", "delay", "gap", "round"), weights_of_pace)[0]
        # If no node was lost, the next round follows within 10 ms.
        span = draw.choice((0.02, 1.0))
        delay = draw.random() * {"settled": 0.5, "delay": span, "gap": 0.03, "round": 0.1}[when]
        # Shorter than the isolation limit, about as long, or longer than the node timeout.
        low, high = draw.choice(((0.02, 0.5), (0.6, 1.2), (1.5, 2.5)))
        yield Step(
            number=number,
            when="settled" if number == 1 else when,
            delay=delay,
            kind=draw.choices(names, weights)[0],
            node=draw.randrange(len(NODES)),
            local=draw.random(),
            hold=setting.node_timeout * (low + (high - low) * draw.random()),
            code=draw.choice((1, 2, 3, 77)),
            back_after=draw.choice((0.0, 0.2, 1.0)) + draw.random() * draw.choice((0.1, 3.0)),
        )
