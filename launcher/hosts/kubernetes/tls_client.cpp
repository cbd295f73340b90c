#include "launcher/hosts/kubernetes/tls_client.hpp"

#include "rendezvous/net/resolve.hpp"

#include <algorithm>
#include <cstdint>
#include <dlfcn.h>
#include <utility>

namespace ddprun::launcher::kubernetes {
namespace {

// From openssl/ssl.h and x509_vfy.h; OpenSSL 1.1 and 3 agree on these.
constexpr int verify_peer = 1;                             // SSL_VERIFY_PEER
constexpr int control_set_host_name = 55;                  // SSL_CTRL_SET_TLSEXT_HOSTNAME
constexpr long name_type_host = 0;                         // TLSEXT_NAMETYPE_host_name
constexpr std::uint64_t no_clean_up_at_exit = 0x00080000;  // OPENSSL_INIT_NO_ATEXIT

}  // namespace

// The functions that are used of the library.
struct tls_calls {
  const void* (*client_method)() = nullptr;
  void* (*new_context)(const void*) = nullptr;
  void (*free_context)(void*) = nullptr;
  int (*load_authorities)(void*, const char*, const char*) = nullptr;
  int (*load_system_authorities)(void*) = nullptr;
  void (*set_verify)(void*, int, void*) = nullptr;
  void* (*new_session)(void*) = nullptr;
  void (*free_session)(void*) = nullptr;
  int (*set_descriptor)(void*, int) = nullptr;
  long (*control)(void*, int, long, void*) = nullptr;
  int (*set_host)(void*, const char*) = nullptr;
  void* (*parameters)(void*) = nullptr;
  int (*set_address)(void*, const char*) = nullptr;
  int (*connect)(void*) = nullptr;
  int (*write)(void*, const void*, int) = nullptr;
  int (*read)(void*, void*, int) = nullptr;
  long (*verify_result)(const void*) = nullptr;
  const char* (*verify_text)(long) = nullptr;

  template <typename Function>
  static bool find(void* library, const char* name, Function*& call) {
    call = reinterpret_cast<Function*>(::dlsym(library, name));
    return call != nullptr;
  }

  // libcrypto's functions are found through libssl, which depends on it.
  bool find_all(void* library) {
    return find(library, "TLS_client_method", client_method) &&
           find(library, "SSL_CTX_new", new_context) &&
           find(library, "SSL_CTX_free", free_context) &&
           find(library, "SSL_CTX_load_verify_locations", load_authorities) &&
           find(library, "SSL_CTX_set_default_verify_paths", load_system_authorities) &&
           find(library, "SSL_CTX_set_verify", set_verify) &&
           find(library, "SSL_new", new_session) && find(library, "SSL_free", free_session) &&
           find(library, "SSL_set_fd", set_descriptor) && find(library, "SSL_ctrl", control) &&
           find(library, "SSL_set1_host", set_host) &&
           find(library, "SSL_get0_param", parameters) &&
           find(library, "X509_VERIFY_PARAM_set1_ip_asc", set_address) &&
           find(library, "SSL_connect", connect) && find(library, "SSL_write", write) &&
           find(library, "SSL_read", read) &&
           find(library, "SSL_get_verify_result", verify_result) &&
           find(library, "X509_verify_cert_error_string", verify_text);
  }
};

namespace {

// Loads the library once per process; it stays loaded.
const tls_calls* find_library() {
  static const std::pair<bool, tls_calls> found = [] {
    tls_calls calls;
    for (const char* const name : {"libssl.so.3", "libssl.so.1.1"}) {
      void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr || !calls.find_all(library)) continue;
      // One of our threads may still be inside the library when this process exits.
      int (*initialize)(std::uint64_t, const void*) = nullptr;
      if (tls_calls::find(library, "OPENSSL_init_crypto", initialize))
        initialize(no_clean_up_at_exit, nullptr);
      return std::pair(true, calls);
    }
    return std::pair(false, calls);
  }();
  return found.first ? &found.second : nullptr;
}

}  // namespace

struct tls_client::state {
  explicit state(const tls_calls& found) : calls(found) {}
  ~state() {
    if (session != nullptr) calls.free_session(session);
    if (context != nullptr) calls.free_context(context);
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  const tls_calls& calls;
  void* context = nullptr;
  void* session = nullptr;
};

tls_client::tls_client(std::unique_ptr<state> held) : state_(std::move(held)) {}
tls_client::~tls_client() = default;

std::unique_ptr<tls_client> tls_client::open(int descriptor, const std::string& host,
                                             const std::string& authority_file,
                                             std::string& problem) {
  const tls_calls* const calls = find_library();
  if (calls == nullptr) {
    problem = "no OpenSSL (libssl.so.3 or libssl.so.1.1) on this machine";
    return nullptr;
  }
  auto held = std::make_unique<state>(*calls);
  held->context = calls->new_context(calls->client_method());
  if (held->context == nullptr) {
    problem = "OpenSSL cannot be set up (its configuration: OPENSSL_CONF)";
    return nullptr;
  }
  const int loaded = authority_file.empty()
                         ? calls->load_system_authorities(held->context)
                         : calls->load_authorities(held->context, authority_file.c_str(), nullptr);
  if (loaded != 1) {
    problem = authority_file + ": no certificates can be read there";
    return nullptr;
  }
  calls->set_verify(held->context, verify_peer, nullptr);
  held->session = calls->new_session(held->context);
  const bool is_address = net::numeric_address(host).has_value();
  // Without the name, any server's certificate would be accepted.
  bool is_set = held->session != nullptr && calls->set_descriptor(held->session, descriptor) == 1;
  if (is_set && is_address) {
    is_set = calls->set_address(calls->parameters(held->session), host.c_str()) == 1;
  } else if (is_set) {
    std::string name = host;
    is_set = calls->set_host(held->session, host.c_str()) == 1;
    calls->control(held->session, control_set_host_name, name_type_host, name.data());
  }
  if (!is_set) {
    problem = "no TLS session can be set up for " + host;
    return nullptr;
  }
  if (calls->connect(held->session) != 1) {
    const long verdict = calls->verify_result(held->session);
    problem = verdict == 0 ? "no TLS connection"
                           : std::string("its certificate: ") + calls->verify_text(verdict);
    return nullptr;
  }
  return std::unique_ptr<tls_client>(new tls_client(std::move(held)));
}

bool tls_client::write(std::string_view bytes) {
  const int size = static_cast<int>(bytes.size());
  return state_->calls.write(state_->session, bytes.data(), size) == size;
}

std::size_t tls_client::read(char* buffer, std::size_t size) {
  const int got = state_->calls.read(state_->session, buffer, static_cast<int>(size));
  return static_cast<std::size_t>(std::max(0, got));
}

}  // namespace ddprun::launcher::kubernetes
