# gpus=1 ranks=2 keep=1
import os, signal, threading, time
import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
os.environ["NCCL_HOSTID"] = f"host-{rank}"
folder = os.path.dirname(os.path.abspath(__file__))
dist.init_process_group("nccl", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
torch.cuda.set_device(0)
x = torch.ones(1, device="cuda")
if rank == 0:
    threading.Timer(6, os.kill, (os.getpid(), signal.SIGKILL)).start()
else:
    time.sleep(12)
dist.all_reduce(x)
torch.cuda.synchronize()
