#include "chaos/cut_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/file.h"
#include "chaos/child_job.h"

namespace trireme {
namespace {

// Runs the words behind the options and the host in the namespace of that host, under its name.
constexpr const char* kShell = R"(#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare -u sh -c "hostname $host; $*"
)";

Error cannot(const std::string& what) {
  return {ErrorKind::Runtime, "network namespaces cannot be made here: " + what + " has failed"};
}

Status run(const std::vector<std::string>& words) {
  if (succeeds(words)) return Done{};
  return cannot(fmt::format("{}", fmt::join(words, " ")));
}

}  // namespace

Result<CutHosts> CutHosts::make(int count, const std::string& shell) {
  CutHosts hosts;
  const int pid = ::getpid();
  hosts.bridge_ = fmt::format("tc{}", pid);
  hosts.network_ = fmt::format("10.{}.{}.", 20 + pid % 200, pid / 200 % 250);
  hosts.gateway_ = hosts.network_ + "254";
  TRIREME_TRY_DONE(run({"ip", "link", "add", hosts.bridge_, "type", "bridge"}));
  TRIREME_TRY_DONE(run({"ip", "addr", "add", hosts.gateway_ + "/24", "dev", hosts.bridge_}));
  TRIREME_TRY_DONE(run({"ip", "link", "set", hosts.bridge_, "up"}));
  for (int number = 1; number <= count; ++number) TRIREME_TRY_DONE(hosts.add(number));
  TRIREME_TRY_DONE(write_file_atomically(shell, kShell));
  if (::chmod(shell.c_str(), 0755) != 0) return damaged(shell + " cannot be made executable");
  return hosts;
}

Status CutHosts::add(int number) {
  const std::string name = fmt::format("{}h{}", bridge_, number);
  TRIREME_TRY_DONE(run({"ip", "netns", "add", name}));
  names_.push_back(name);
  TRIREME_TRY_DONE(
      run({"ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name}));
  TRIREME_TRY_DONE(run({"ip", "link", "set", name, "master", bridge_, "up"}));
  const std::string address = fmt::format("{}{}/24", network_, number);
  TRIREME_TRY_DONE(run({"ip", "-n", name, "addr", "add", address, "dev", "eth0"}));
  TRIREME_TRY_DONE(run({"ip", "-n", name, "link", "set", "eth0", "up"}));
  return run({"ip", "-n", name, "link", "set", "lo", "up"});
}

CutHosts::CutHosts(CutHosts&& other) noexcept
    : bridge_(std::exchange(other.bridge_, "")),
      network_(std::move(other.network_)),
      gateway_(std::move(other.gateway_)),
      names_(std::exchange(other.names_, {})) {}

CutHosts::~CutHosts() {
  for (const std::string& name : names_) {
    succeeds({"sh", "-c", "ip netns pids " + name + " | xargs -r kill -9"});
    succeeds({"ip", "netns", "del", name});
    succeeds({"ip", "link", "del", name});
  }
  if (!bridge_.empty()) succeeds({"ip", "link", "del", bridge_});
}

bool CutHosts::cut(const std::string& host) const {
  return succeeds({"ip", "link", "set", host, "down"});
}

bool CutHosts::join(const std::string& host) const {
  return succeeds({"ip", "link", "set", host, "up"});
}

}  // namespace trireme
