// Asio's own code, compiled once for all programs.
#include <boost/asio/impl/src.hpp>
