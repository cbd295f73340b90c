"""Groups of NCCL whose round is over: launcher/survivors/README.md, "Survivors on GPUs".

What a stuck collective has half reduced is used by the kernels that wait behind it, once it is
aborted: from then on nothing on the GPU counts that a collective, or what follows from one, may
have written. So a script says what its state is (STATES), and only then an abort is allowed.
"""

import functools
import gc
import sys
import weakref

LOADED = "loaded"    # train() sets all of its state anew when it begins
STEPPED = "stepped"  # it is changed by the steps of optimizers alone: each waits for its gradients
STATES = (LOADED, STEPPED)

# Of torch's watchdog, read when a group is made; launchers set the first to 1. It must neither end
# the process nor abort a group by itself, and before it lets go of a group in which it has found an
# error, it would sleep a minute for the dumps of others.
ENVIRONMENT = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_BLOCKING_WAIT": "0",  # with 1, one that waits in vain aborts its group
    "TORCH_NCCL_DESYNC_DEBUG": "0",  # with 1, the first is not 0 any more
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0",  # the script's own calls say what the GPU reports
    "TORCH_NCCL_TEARDOWN_ON_TIMEOUT": "0",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "0",
}


class RoundIsOver(RuntimeError):
    """What a collective should have said that has been aborted."""


def is_in(dist, group):
    """Whether NCCL serves this group, be it for GPUs only ("cpu:gloo,cuda:nccl")."""
    return "nccl" in dist.get_backend_config(group)


def check(state):
    """What a script has given."""
    if state not in (None, *STATES):
        known = " or ".join(map(repr, STATES))
        raise ValueError(f"ddprun.survive: state is {state!r}; give {known}, or nothing")


class Gate:
    """What collectives have written is whole behind it, or nothing is done with it."""

    def __init__(self, state, is_aborting, has_groups, note_step):
        """`is_aborting` says whether an abort has begun, `has_groups` whether one of NCCL is there;
        `note_step` is called when the gradients of a step are whole."""
        self.is_aborting = is_aborting
        self.has_groups = has_groups
        self.note_step = note_step
        self.handle = None
        self.is_checked = False  # in this round
        self.checked = weakref.WeakSet()
        self.seen = weakref.WeakSet()  # optimizers that have stepped in this process
        self.cycle = weakref.WeakSet()  # those since the last repeat
        self.has_repeated = False
        if state == STEPPED:
            from torch.optim.optimizer import register_optimizer_step_pre_hook
            self.handle = register_optimizer_step_pre_hook(self.before_step)

    def is_within_cycle(self):
        """Whether some optimizers have made a step that others have not made yet. Before one makes
        its second step, nobody knows how many there are."""
        gc.collect()  # those of an earlier call of train() may be left
        return not self.has_repeated or 0 < len(self.cycle) < len(self.seen)

    def begin_round(self):
        self.cycle.clear()
        self.is_checked = False

    def pass_through(self, wait):
        """`wait` ends when what the script has asked for is done."""
        if not self.is_aborting() and self.has_groups():
            wait()
        # An abort that had not begun when the wait was over has not ended it.
        if self.is_aborting():
            raise RoundIsOver("the round ended before the collectives of this step did")

    def check_state(self, optimizer):
        """Each optimizer at its first step, and all modules at the first step of a round."""
        found = None
        if optimizer not in self.checked:
            self.checked.add(optimizer)
            found = why_not_stepped(optimizer)
        if found is None and not self.is_checked:
            self.is_checked = True
            found = written_by_collectives()
        if found is not None:
            raise ValueError(f"ddprun.survive(state='stepped'): {found}; use state='loaded'")

    def before_step(self, optimizer, arguments, keywords):
        if self.has_groups():
            self.check_state(optimizer)
        begin = functools.partial(self.begin_step, optimizer)
        if callable(keywords.get("closure")):
            return arguments, {**keywords, "closure": followed(keywords["closure"], begin)}
        if len(arguments) > 1 and callable(arguments[1]):  # the first is the optimizer
            return (arguments[0], followed(arguments[1], begin), *arguments[2:]), keywords
        begin()
        return None

    def begin_step(self, optimizer):
        devices = {parameter.device for group in optimizer.param_groups
                   for parameter in group["params"]}
        self.pass_through(lambda: wait_for(devices))
        self.note_step()
        if optimizer in self.cycle:
            self.cycle.clear()
            self.has_repeated = True
        self.cycle.add(optimizer)
        self.seen.add(optimizer)

    def remove(self):
        if self.handle is not None:
            self.handle.remove()


def followed(closure, then):
    """A closure makes the gradients, as the first thing in a step: `then` waits for them."""
    def both():
        loss = closure()
        then()
        return loss
    return both


def why_not_stepped(optimizer):
    """Why not all is whole that this one has written when a round ends."""
    if type(optimizer).__name__ == "ZeroRedundancyOptimizer":
        return "ZeroRedundancyOptimizer sends parameters to the other ranks after the step"
    if isinstance(optimizer, sys.modules["torch"].optim.LBFGS):
        return "LBFGS changes parameters between evaluations, and may have made half a step"
    return None


def written_by_collectives():
    """What would live on in this process and is written by them, apart from gradients: an aborted
    one would leave it half written."""
    torch = sys.modules["torch"]
    ddp, batch_norm = torch.nn.parallel.DistributedDataParallel, torch.nn.SyncBatchNorm
    for one in gc.get_objects():
        kind = type(one)  # isinstance() would ask proxies of others what they are
        if kind.__name__ == "PostLocalSGDOptimizer":  # torch calls no hook for its steps
            return "PostLocalSGDOptimizer averages parameters over the ranks after the step"
        if issubclass(kind, batch_norm):
            return "SyncBatchNorm averages its statistics over the ranks"
        if issubclass(kind, ddp) and one.will_sync_module_buffers():
            return ("DistributedDataParallel sends the model's buffers to the other ranks unless "
                    "broadcast_buffers is False")
    return None


def wait_for(devices):
    """The stream of each in which this thread works."""
    torch = sys.modules["torch"]
    for device in devices:
        if not torch.cuda.is_initialized() or device.type != "cuda":
            continue
        refuse_capture(torch)
        torch.cuda.current_stream(device).synchronize()


def wait_for_gpus():
    """What has been asked of those that this process uses is done, or raises if one is of no use
    any more."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    refuse_capture(torch)
    for index in range(torch.cuda.device_count()):
        if torch._C._cuda_hasPrimaryContext(index):  # else waiting would make one, and use memory
            torch.cuda.synchronize(index)


def refuse_capture(torch):
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("ddprun.survive: a CUDA graph cannot wait for collectives, as "
                           "state='stepped' does before each step of an optimizer: use "
                           "state='loaded'")
