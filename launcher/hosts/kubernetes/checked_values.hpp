// Checks what Kubernetes would refuse only when it gets the manifest: names, amounts and variables.
// Also escapes texts that Kubernetes would expand.
//
// `given` is the option as the user wrote it.
#pragma once

#include "rendezvous/cli/usage_error.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace ddprun::launcher::kubernetes {

// A label of RFC 1123, like host names and namespaces, of at most 63 characters.
cli::parsed<std::string> read_label(std::string_view given, std::string_view text);

// A label of RFC 1035, as for a Service: it must also begin with a letter.
cli::parsed<std::string> read_service_name(std::string_view given, std::string_view text);

// "8", "500m", "0.5"; must be above zero.
cli::parsed<std::string> read_processors(std::string_view given, std::string_view text);

// Bytes: "64Gi", "500M"; must be above zero.
cli::parsed<std::string> read_bytes(std::string_view given, std::string_view text);

// "NAME=VALUE".
cli::parsed<std::pair<std::string, std::string>> read_variable(std::string_view given,
                                                               std::string_view text);

// An image reference, as far as mistakes can be recognised.
cli::parsed<std::string> read_image(std::string_view given, std::string_view text);

// Escapes text for arguments and variables, where kubelet replaces "$(NAME)" by a variable's value
// and "$$" by "$" (k8s.io/kubernetes/third_party/forked/golang/expansion).
std::string without_expansion(std::string_view text);

}  // namespace ddprun::launcher::kubernetes
