#include "agent/rank_processes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <optional>

#include "agent/leader.h"
#include "agent/memory_folder.h"
#include "agent/own_host.h"

namespace trireme {
namespace {

constexpr int kJoinLookMs = 20;

bool is_this_host(const RankProcesses& processes, const std::string& name) {
  return name == "localhost" || name == processes.host;
}

int num_hosts(const OtherHosts& others) { return int(others.named.size()) + others.agents; }

// Slots of a host for which none are named: an equal share of the ranks.
int usual_slots(const RankProcesses& processes) {
  const int in_use = num_hosts(processes.others) - processes.others.spares;
  return (processes.ranks + in_use - 1) / in_use;
}

Status check_hosts(const RankProcesses& processes) {
  const OtherHosts& others = processes.others;
  if (others.spares >= num_hosts(others)) {
    return usage(fmt::format("--spares {} leaves none of the {} hosts for ranks; name more hosts",
                             others.spares, num_hosts(others)));
  }
  if (others.agents > 0) return Done{};  // they may bring slots of their own
  int64_t slots = 0;
  for (const NamedHost& host : others.named) {
    slots += host.slots > 0 ? host.slots : usual_slots(processes);
  }
  if (slots >= processes.ranks) return Done{};
  return usage(
      fmt::format("{} ranks do not fit into the {} slots of the hosts; name more hosts or "
                  "more slots (HOST:SLOTS), or train with fewer ranks",
                  processes.ranks, slots));
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("[::1]");
}

bool is_wildcard(const std::string& address) {
  return address.starts_with("0.0.0.0:") || address.starts_with("[::]:");
}

// Listens for the agents of other hosts. The address must lead other hosts here.
Result<Socket> listen_for_agents(const RankProcesses& processes) {
  std::string address = processes.others.listen;
  if (address.empty()) address = processes.host;
  const bool has_port = address.find(':') != std::string::npos;
  TRIREME_TRY(listener, listen_at(has_port ? address : address + ":0"));
  const bool needs_others =
      processes.others.agents > 0 ||
      std::any_of(processes.others.named.begin(), processes.others.named.end(),
                  [&](const NamedHost& host) { return !is_this_host(processes, host.name); });
  const std::string own = own_address(listener);
  const bool is_guessed = processes.others.listen.empty();
  if (is_wildcard(own) || (needs_others && is_guessed && is_loopback(own))) {
    return usage(
        fmt::format("{} leads to {}, which other hosts cannot reach; give --listen with "
                    "an address of this host that they can reach",
                    address, own));
  }
  return std::move(listener);
}

// Waits until the agents of all hosts have joined.
Status wait_for_agents(const RankProcesses& processes, JobHosts& hosts,
                       const TakenSignals& signals) {
  const Deadline deadline = Deadline::after(processes.start_timeout_s);
  while (hosts.size() < num_hosts(processes.others)) {
    std::vector<pollfd> entries = {{signals.fd(), POLLIN, 0}};
    hosts.add_descriptors(entries);
    ::poll(entries.data(), entries.size(), kJoinLookMs);
    hosts.receive(processes.log);
    while (const int signal = signals.next()) {
      if (signal == SIGINT || signal == SIGTERM) {
        return Error{ErrorKind::Runtime, "stopped before all hosts have joined"};
      }
    }
    if (deadline.left_ms() > 0) continue;
    const std::vector<std::string> missing = hosts.missing();
    return Error{
        ErrorKind::Runtime,
        missing.empty()
            ? fmt::format("{} of {} agents have joined in {} s; agents with the same name "
                          "count once (trireme agent --name)",
                          hosts.size(), num_hosts(processes.others), processes.start_timeout_s)
            : fmt::format("the agents of these hosts have not joined in {} s: {}; look at "
                          "the messages of {} above",
                          processes.start_timeout_s, fmt::join(missing, ", "),
                          processes.others.shell.front())};
  }
  hosts.sort();
  return Done{};
}

// Makes the hosts of a job on several hosts ready.
Status gather_hosts(const RankProcesses& processes, const std::string& secret,
                    const SharedJobPage& page, const TakenSignals& signals, JobHosts& hosts,
                    Socket listener, const std::string& memory_folder) {
  const OtherHosts& others = processes.others;
  const std::string address = own_address(listener);
  hosts.open(Reception(std::move(listener), secret, processes.log),
             {processes.command, others.folder}, usual_slots(processes));
  for (const NamedHost& host : others.named) {
    const int slots = host.slots > 0 ? host.slots : usual_slots(processes);
    if (is_this_host(processes, host.name)) {
      auto here = std::make_unique<OwnHost>(host.name, processes.command, page, signals.before());
      here->set_memory_folder(memory_folder);
      hosts.add(std::move(here), slots);
    } else {
      hosts.expect(host.name, slots);
    }
  }
  std::vector<std::string> agent = others.agent;
  agent.push_back(address);
  if (!others.named.empty()) {
    TRIREME_TRY_DONE(hosts.start_shells({others.shell, agent, secret, signals.before()}));
  }
  return wait_for_agents(processes, hosts, signals);
}

}  // namespace

Result<RanksEnd> run_rank_processes(const RankProcesses& processes) {
  const OtherHosts& others = processes.others;
  const std::string secret = others.secret.empty() ? fresh_secret() : others.secret;
  const TakenSignals signals;
  TRIREME_TRY(page, SharedJobPage::make());
  std::optional<MemoryFolder> memory;
  if (processes.keeps_memory_folder) {
    TRIREME_TRY(folder, MemoryFolder::make());
    memory.emplace(std::move(folder));
  }
  JobHosts hosts(page);
  std::string interface = "127.0.0.1";
  if (others.any()) {
    TRIREME_TRY_DONE(check_hosts(processes));
    TRIREME_TRY(listener, listen_for_agents(processes));
    interface = own_address(listener);
    interface.resize(interface.rfind(':'));
    TRIREME_TRY_DONE(gather_hosts(processes, secret, page, signals, hosts, std::move(listener),
                                  memory ? memory->path() : ""));
  } else {
    auto here =
        std::make_unique<OwnHost>(processes.host, processes.command, page, signals.before());
    if (memory) here->set_memory_folder(memory->path());
    hosts.add(std::move(here), kLargestTcpWorld);
  }
  TRIREME_TRY(rendezvous, Rendezvous::open(interface + ":0", secret, processes.log));
  return Leader(processes, hosts, signals, std::move(rendezvous), secret, page).run();
}

}  // namespace trireme
