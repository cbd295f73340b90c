// What Kubernetes would refuse only after the manifest has been sent: names, amounts and variables.
// And how a text is written that Kubernetes would expand.
//
// `given` is the option as the person wrote it.
#pragma once

#include "rendezvous/cli/usage_error.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace ddprun::launcher::kubernetes {

// A label of RFC 1123, as host names and namespaces are, at most 63 characters.
cli::parsed<std::string> read_label(std::string_view given, std::string_view text);

// A label of RFC 1035, as a Service has to have it: it begins with a letter, too.
cli::parsed<std::string> read_service_name(std::string_view given, std::string_view text);

// "8", "500m", "0.5"; never nothing.
cli::parsed<std::string> read_processors(std::string_view given, std::string_view text);

// "64Gi", "500M", in bytes; never nothing.
cli::parsed<std::string> read_bytes(std::string_view given, std::string_view text);

// "NAME=VALUE".
cli::parsed<std::pair<std::string, std::string>> read_variable(std::string_view given,
                                                               std::string_view text);

// A reference to an image, as far as it can be told from a mistake.
cli::parsed<std::string> read_image(std::string_view given, std::string_view text);

// Of arguments and variables kubelet takes "$(NAME)" for a variable's value, and "$$" for "$"
// (k8s.io/kubernetes/third_party/forked/golang/expansion): so written that the text arrives.
std::string without_expansion(std::string_view text);

}  // namespace ddprun::launcher::kubernetes
