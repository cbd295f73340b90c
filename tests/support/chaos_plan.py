"""What a chaos episode does: a pure function of its seed.

Real processes answer a plan a little differently each time; the plan itself (which way to run,
which faults in which order, how long each lasts, whom it strikes) is the same for the same seed,
for as long as the episode runs.
"""

import random
from dataclasses import dataclass

NODES = ("node-a", "node-b", "node-c")


@dataclass(frozen=True)
class Setting:
    """How the job of an episode is run."""

    seed: int
    embedded: bool  # the daemon lives in node-a's agent
    nodes_min: int  # of three
    workers: int  # on each node
    on_join: str  # wait | restart
    node_timeout: float
    on_term: str  # what a worker does at SIGTERM: die | slow (then dies of it) | ignore
    strays: bool  # each worker leaves a child in a session of its own
    finish: str  # what happens while the workers are told to finish: quiet | kill | stop (daemon)
    host_embeds: bool  # node-a is on the daemon's host: it holds one itself when nobody listens
    pace: str  # calm: most faults find a whole round; hectic: few do

    @property
    def nnodes(self):
        return f"{self.nodes_min}:{len(NODES)}"

    @property
    def heartbeat(self):
        return self.node_timeout / 10

    @property
    def conf(self):
        # orphan_limit: nobody vouches for the dead when agents and guardians are killed together.
        return (f"node_timeout={self.node_timeout:g},reconnect_grace=1,last_call_timeout=0.3,"
                "stop_grace=0.5,drain_grace=1,kill_wait=2,settle=0.2,settle_max=1,start_timeout=20,"
                "join_timeout=120,linger=3,orphan_limit=15")


@dataclass(frozen=True)
class Step:
    """One fault. `when`: settled (`delay` after the run is whole again), delay (that long after the
    fault before), gap (`delay` after the last worker of a round is gone), round (`delay` after the
    first worker of a new one)."""

    number: int
    when: str
    delay: float
    kind: str
    node: int  # index into NODES
    local: float  # 0 to 1: which of the node's workers
    hold: float  # seconds from SIGSTOP to SIGCONT
    code: int  # with which a worker ends
    back_after: float  # seconds until what died of this is started again

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
    ("node_kill", 5),  # agent, guardian and workers in one go
    ("all_agents_kill", 3),
    ("all_agents_stop", 2),
    ("run_interrupt", 2),  # Ctrl-C at one agent: ends the run, the scheduler starts it anew
    ("run_term", 2),  # SIGTERM to all agents, the same
)

ENDS_RUN = ("run_interrupt", "run_term")


def setting_of(seed):
    draw = random.Random(f"setting {seed}")
    embedded = draw.random() < 0.2
    # With fewer than all, an embedded daemon that comes back empty cannot know what still runs.
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
        # For the same reason.
        host_embeds=draw.random() < 0.5 and nodes_min == len(NODES) and not embedded,
    )


def steps_of(setting):
    """The faults of an episode, without end."""
    draw = random.Random(f"steps {setting.seed}")
    kinds = [(kind, weight) for kind, weight in KINDS
             if not (kind == "worker_term" and setting.on_term == "ignore")]
    names, weights = zip(*kinds)
    weights_of_pace = {"calm": (60, 20, 5, 15), "hectic": (15, 40, 20, 25)}[setting.pace]
    number = 0
    while True:
        number += 1
        when = draw.choices(("settled", "delay", "gap", "round"), weights_of_pace)[0]
        # A round follows the one before within 10 ms when no node was lost.
        span = draw.choice((0.02, 1.0))
        delay = draw.random() * {"settled": 0.5, "delay": span, "gap": 0.03, "round": 0.1}[when]
        # Shorter than the isolation limit, about as long, and longer than the node timeout.
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
