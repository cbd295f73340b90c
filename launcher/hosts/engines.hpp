// Asks the engines that ddprun knows, one after the other, whether one of them has started this
// process. Launchers nest (mpirun in a Slurm allocation), and both leave their variables: the
// innermost one is asked first and wins.
//
// To add an engine: a folder beside this file, and a row in engines.cpp with what it does here.
//
// Thread rule: before the first thread. An engine may speak to its own server here, for seconds at
// most.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/hosts/placement.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <functional>
#include <memory>
#include <string>

namespace ddprun::launcher::hosts {

// None for a ddprun that a worker has started: it runs on this host, as torchrun does there.
placement_outcome find_placement(const environment_map& environment);

// As long as it is held, this process is ended when the engine's own on this node is; null: no
// engine has one.
using engine_tie = std::shared_ptr<void>;

// With the options that were read, whatever was typed: each engine takes what is its own out of
// `environment` and says in `options.notes` where options contradict it. `placed_by` is the engine
// that has said where this is; empty: none. The result makes the tie, once this process may have
// threads.
std::function<engine_tie()> settle_with_engines(environment_map& environment,
                                                launch_options& options,
                                                const std::string& placed_by);

// True in a step of Slurm and below mpirun: they start each of a job's agents once, and end them
// together. A container of a pod may be started again in its place. To be asked before an engine
// takes its variables out of `environment`.
bool starts_each_once(const environment_map& environment);

// Lets a ddprun that a worker starts know that it is in the worker's task or pod, whose variables
// the worker inherits. To be called on the environment that workers get.
void mark_task(environment_map& environment);

}  // namespace ddprun::launcher::hosts
