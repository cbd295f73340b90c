#!/usr/bin/env python3
"""Checks who includes whom: dependencies between layers point one way, heavy or impure headers are
included only where they are allowed, and namespaces follow folders. Prints each violation as
FILE:LINE, and exits with 1 if there are any."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')

BASE = ("rendezvous/base/",)
MESSAGES = (*BASE, "rendezvous/core/messages/")
CORE = (*BASE, "rendezvous/core/")
CLI = (*MESSAGES, "rendezvous/cli/")
PROTOCOL = (*CORE, "rendezvous/protocol/")
NET = (*PROTOCOL, "rendezvous/net/")
STORE = (*NET, "rendezvous/store/")
LOG = (*NET, "rendezvous/log/")
JOURNAL = (*NET, "rendezvous/journal/")
SERVER = (*STORE, *LOG, *CLI, *JOURNAL, "rendezvous/server/")
CLIENT = (*NET, "rendezvous/client/")
LAUNCHER_BASE = (*BASE, "launcher/base/")
OUTPUT = ("rendezvous/log/", "launcher/base/", "launcher/process/", "launcher/log/")
NETWORK = (*NET, *CLI, *LAUNCHER_BASE, "launcher/cli/", "launcher/process/start_failure",
           "launcher/network/")
WORKER_RULES = ("launcher/process/worker_group_machine", "launcher/process/worker_life",
                "launcher/process/worker_timers", "launcher/process/timer_request")
PURE_LAUNCHER = (*CORE, *CLI, *LAUNCHER_BASE, "launcher/cli/", "launcher/agent/worker_environment",
                 "launcher/hosts/placement", "launcher/hosts/mpi/worker_variables",
                 "launcher/nccl/round_ids")

# Shared with workers by the launcher.
NCCL_IDS = ("worker/nccl_id", "worker/nccl_version")

# The first matching prefix says which of our headers a file may include. launcher/process and
# launcher/log do not depend on rounds and agents.
LAYERS = [
    ("rendezvous/base/", BASE),
    ("rendezvous/core/messages/", MESSAGES),
    ("rendezvous/core/run/", (*MESSAGES, "rendezvous/core/run/")),
    ("rendezvous/core/agent/", (*MESSAGES, "rendezvous/core/agent/")),
    ("rendezvous/core/store/", (*BASE, "rendezvous/core/store/")),
    ("rendezvous/core/", CORE),
    ("rendezvous/cli/", CLI),
    ("rendezvous/protocol/", PROTOCOL),
    ("rendezvous/net/", NET),
    ("rendezvous/store/", STORE),
    ("rendezvous/log/", LOG),
    ("rendezvous/journal/", JOURNAL),
    ("rendezvous/server/", SERVER),
    ("rendezvous/client/", CLIENT),
    ("launcher/base/", LAUNCHER_BASE),
    ("launcher/cli/", PURE_LAUNCHER),
    ("launcher/agent/worker_environment", PURE_LAUNCHER),
    ("launcher/nccl/round_ids", (*MESSAGES, *NCCL_IDS, "launcher/nccl/round_ids")),
    ("launcher/report/", (*MESSAGES, *LAUNCHER_BASE, "launcher/report/",
                         "rendezvous/protocol/report_fields")),
    *((rules, (*BASE, *WORKER_RULES, "launcher/process/start_failure")) for rules in WORKER_RULES),
    ("launcher/process/", (*NET, *OUTPUT)),
    ("launcher/vault/", (*NET, *LAUNCHER_BASE, "launcher/process/background_task",
                        "launcher/cli/vault_options", "launcher/vault/",
                        "worker/snapshot/checksum", "worker/store_client",
                        "worker/blocking_stream")),
    ("launcher/warm/", (*NET, *OUTPUT, "launcher/warm/")),
    ("launcher/evidence/", (*NET, *OUTPUT, "launcher/evidence/", "launcher/warm/site_zip",
                            "launcher/warm/memory_file", "launcher/warm/answer_options",
                            "worker/blocking_stream")),
    ("launcher/log/", (*NET, *OUTPUT)),
    ("launcher/network/", NETWORK),
    ("launcher/node/", (*NETWORK, "launcher/process/", "launcher/node/")),
    ("launcher/output/", (*NET, *CLI, *OUTPUT, "launcher/cli/", "launcher/report/",
                          "launcher/output/")),
    # The doctor uses the store as a worker would.
    ("launcher/hosts/doctor/", (*SERVER, *CLIENT, "launcher/", "worker/store_client",
                                "worker/blocking_stream", *NCCL_IDS)),
    ("launcher/nccl/", (*SERVER, *CLIENT, "launcher/", *NCCL_IDS)),
    ("launcher/", (*SERVER, *CLIENT, "launcher/")),
    ("worker/", (*NET, "worker/")),
    ("examples/", (*NET, "worker/", "examples/")),
]

PURE = ("rendezvous/core/", "rendezvous/cli/", "rendezvous/protocol/", "rendezvous/base/",
        *WORKER_RULES)
# The files of base/ that call the system.
SYSTEM = ("rendezvous/base/error.cpp", "rendezvous/base/unique_fd.hpp",
          "rendezvous/base/unique_fd.cpp", "rendezvous/base/signals_blocked.hpp",
          "rendezvous/base/private_folders.cpp")
LIGHT = ("rendezvous/", "launcher/")
# In worker/, LibTorch, NCCL and CUDA stay in their own folders. Users of communicator.hpp include
# neither NCCL nor CUDA.
NCCL = ("worker/nccl/communicator_state.hpp",)
TORCH = re.compile(r"worker/torch(_cuda)?/")

JSON = (
    "rendezvous/protocol/agent_protocol.cpp",
    "rendezvous/protocol/json_fields.hpp",
    "rendezvous/protocol/report_fields.hpp",
    "rendezvous/protocol/report_fields.cpp",
    "rendezvous/log/own_line.cpp",
    "rendezvous/server/runs_json.cpp",
    "launcher/evidence/flight_record_reader.cpp",
    "launcher/evidence/ras_status.cpp",
    "launcher/hosts/doctor/cluster_json.cpp",
    "launcher/hosts/doctor/report.cpp",
    "launcher/hosts/kubernetes/trainer_status.cpp",
    "launcher/process/timer_request.cpp",
    "launcher/report/error_file.cpp",
    "launcher/report/event_json.cpp",
    "launcher/report/own_json_line.cpp",
    "launcher/report/report_json.cpp",
)

# (header pattern, files that may include it, by name or pattern, files that the rule applies to)
PLACES = [
    (r"nlohmann/", JSON, LIGHT),
    (r"boost/beast", ("rendezvous/server/http_session.cpp",
                      "launcher/hosts/kubernetes/trainer_post.cpp",
                      "launcher/evidence/worker_server.cpp",
                      "launcher/network/health_port.cpp",
                      "launcher/network/port_search.cpp"), LIGHT),
    (r"boost/process", ("launcher/process/child_launcher.hpp",), LIGHT),
    (r"boost/asio|boost/(?!system/)|spdlog|fmt/", (), PURE),
    (r"(random|iostream|fstream|ctime|thread|mutex|unistd\.h|sys/.*)$",
     SYSTEM, PURE),
    (r"torch/|c10/|ATen/|nccl\.h|cuda", (), LIGHT),
    (r"nccl\.h|cuda", NCCL, ("worker/",)),
    (r"torch/c|torch/[a-z]+\.h|c10/|ATen/", TORCH, ("worker/",)),
    (r"catch2/", ("tests/support/catch.hpp", "tests/support/catch_main.cpp"), ("",)),
]

# Types that all folders use are in ddprun itself; those of core/messages that only machines need
# are in core.
NAMESPACES = [
    ("rendezvous/base/", r"ddprun"),
    ("rendezvous/core/messages/", r"ddprun(::core)?"),
    ("launcher/hosts/", r"ddprun::launcher(::\w+)+"),
    ("launcher/", r"ddprun::launcher(::\w+)?"),
    ("worker/", r"ddprun::worker"),
    ("rendezvous/", r"ddprun::{folder}(::\w+)?"),
]
NAMESPACE = re.compile(r"^namespace (ddprun[\w:]*) {")

# Calls that would make a pure layer depend on its environment.
IMPURE = re.compile(
    r"\b((steady_clock|system_clock)::now|getenv|random_device|std::c(out|err)|f?printf)\b"
)


def breaches(path, text):
    layer = next((allowed for prefix, allowed in LAYERS if path.startswith(prefix)), None)
    namespaces = next((names for prefix, names in NAMESPACES if path.startswith(prefix)), r".*")
    namespaces = namespaces.format(folder=(path.split("/") + [""])[1])
    is_pure = path.startswith(PURE) and path not in SYSTEM
    for number, line in enumerate(text.splitlines(), 1):
        impure = IMPURE.search(line)
        if impure and is_pure and not line.lstrip().startswith("//"):
            yield number, f"{impure.group()} in a pure layer"
        opened = NAMESPACE.match(line)
        if opened and not re.fullmatch(namespaces, opened.group(1)):
            yield number, f"namespace {opened.group(1)} is not that of its folder"
        found = INCLUDE.match(line)
        if not found:
            continue
        ours, theirs = found.groups()
        if ours and layer is not None and not ours.startswith(layer):
            yield number, f"may not include {ours}"
        for pattern, places, about in PLACES:
            may = places.match(path) if isinstance(places, re.Pattern) else path in places
            if path.startswith(about) and not may and re.match(pattern, theirs or ours):
                yield number, f"may not include {theirs or ours}"


# A program that uses the worker library may get these of our headers, and no others.
INSTALLED = re.compile(r"worker/|rendezvous/base/")


def installed():
    """Returns the headers that .cmake/Install.cmake lists and all that they include, with the
    includer."""
    text = (ROOT / ".cmake/Install.cmake").read_text()
    names = " ".join(re.findall(r"^set\(public\w* (.*?)\)", text, re.S | re.M)).split()
    found = {}
    left = [(f"worker/{name}.hpp", ".cmake/Install.cmake") for name in names]
    while left:
        header, by = left.pop()
        if header in found:
            continue
        found[header] = by
        for line in (ROOT / header).read_text().splitlines():
            include = INCLUDE.match(line)
            if include and include.group(1):
                left.append((include.group(1), header))
    return found


def main():
    count = 0
    wrong = 0
    for header, by in installed().items():
        if not INSTALLED.match(header):
            print(f"{by}:1: is installed, and may not include {header}")
            wrong += 1
    for folder in ("rendezvous", "launcher", "worker", "examples", "tests"):
        for file in sorted((ROOT / folder).rglob("*.[ch]pp")):
            path = file.relative_to(ROOT).as_posix()
            count += 1
            for number, text in breaches(path, file.read_text()):
                print(f"{path}:{number}: {text}")
                wrong += 1
    print(f"{count} files, {wrong} breaches of the layers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
