#pragma once

#include <string>

#include "comm/tcp/socket.h"

namespace trireme {

// Opens the port at which other hosts reach an agent. `address` is HOST or HOST:PORT of this host;
// without a port, a free one is taken. An address that stands for every interface is refused, and
// so is one of the loopback if `needs_others`, because other hosts cannot connect there.
Result<Socket> listen_for_agents(const std::string& address, bool needs_others);

// The interface of HOST:PORT: its text without the port.
std::string interface_of(const std::string& address);

}  // namespace trireme
