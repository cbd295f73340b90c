// Asks each known engine whether it has started this process. Launchers may be nested (mpirun in a
// Slurm allocation), and both leave their variables: the innermost one is asked first and wins.
//
// To add an engine, add a folder beside this file, and a row in engines.cpp.
//
// Thread rule: before the first thread. An engine may talk to its own server here, for some seconds
// at most.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/hosts/placement.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <functional>
#include <memory>
#include <string>

namespace ddprun::launcher::hosts {

// Empty for a ddprun that a worker has started: it runs on this host, as torchrun would.
placement_outcome find_placement(const environment_map& environment);

// While it is held, this process ends when the engine's process on this node ends; null: no engine
// has such a process.
using engine_tie = std::shared_ptr<void>;

// Called with the options that were read: each engine removes its own variables from `environment`,
// and notes contradictions in `options.notes`. `placed_by` is the engine that has placed this node;
// empty: none. The returned function creates the tie, and may be called once threads are allowed.
std::function<engine_tie()> settle_with_engines(environment_map& environment,
                                                launch_options& options,
                                                const std::string& placed_by);

// True in a Slurm step and below mpirun, which start each agent of a job once and end them
// together; a pod's container may be restarted. Call this before an engine removes its variables
// from `environment`.
bool starts_each_once(const environment_map& environment);

// Tells a ddprun that a worker starts that it runs in the worker's task or pod, whose variables it
// inherits. Call it on the workers' environment.
void mark_task(environment_map& environment);

}  // namespace ddprun::launcher::hosts
