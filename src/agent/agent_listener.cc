#include "agent/agent_listener.h"

#include <fmt/format.h>

namespace trireme {
namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("[::1]");
}

bool is_wildcard(const std::string& address) {
  return address.starts_with("0.0.0.0:") || address.starts_with("[::]:");
}

}  // namespace

Result<Socket> listen_for_agents(const std::string& address, bool needs_others) {
  const size_t colon = address.rfind(':');
  // An address of IPv6 stands in brackets, and has colons of its own.
  const bool has_port = colon != std::string::npos && address.find(']', colon) == std::string::npos;
  TRIREME_TRY(listener, listen_at(has_port ? address : address + ":0"));
  const std::string own = own_address(listener);
  if (is_wildcard(own) || (needs_others && is_loopback(own))) {
    return usage(
        fmt::format("the name or address of this host, {}, means {} here, to which other hosts "
                    "cannot connect; give --listen with an address of this host that they can "
                    "reach",
                    address, own));
  }
  return std::move(listener);
}

std::string interface_of(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

}  // namespace trireme
