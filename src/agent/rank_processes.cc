#include "agent/rank_processes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "agent/agent_listener.h"
#include "agent/job_coord.h"
#include "agent/job_here.h"
#include "agent/job_member.h"
#include "agent/memory_folder.h"
#include "agent/remote_host.h"
#include "agent/remote_shells.h"

namespace trireme {
namespace {

constexpr int kJoinLookMs = 20;
constexpr double kTellWaitingS = 5.0;
constexpr size_t kJobNameLength = 16;

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

// The name of this host is a guess, which may mean an address that only this host has.
Result<Socket> listen_for_others(const RankProcesses& processes) {
  const OtherHosts& others = processes.others;
  if (!others.listen.empty()) return listen_for_agents(others.listen, false);
  const bool needs_others =
      others.agents > 0 ||
      std::any_of(others.named.begin(), others.named.end(),
                  [&](const NamedHost& host) { return !is_this_host(processes, host.name); });
  return listen_for_agents(processes.host, needs_others);
}

JobTerms terms_of(const RankProcesses& processes, bool leads_without_ranks) {
  const OtherHosts& others = processes.others;
  JobTerms terms{.job = fresh_secret().substr(0, kJobNameLength),
                 .coord = others.coord,
                 .coord_keys = others.coord_keys,
                 .lease_s = others.lease_s,
                 .command = processes.command,
                 .folder = others.folder,
                 .run_dir = others.run_dir,
                 .ranks = processes.ranks,
                 .layouts = others.layouts,
                 .max_restarts = processes.max_restarts,
                 .leaves_lost_out = processes.leaves_lost_out,
                 .skips_bad_batches = processes.skips_bad_batches,
                 .start_timeout_s = processes.start_timeout_s,
                 .num_agents = num_hosts(others) + (leads_without_ranks ? 1 : 0),
                 .usual_slots = usual_slots(processes)};
  for (const NamedHost& host : others.named) {
    terms.hosts.push_back(host);
    if (host.slots == 0) terms.hosts.back().slots = terms.usual_slots;
  }
  return terms;
}

// The agents of other hosts that have come, and have not got the terms yet.
class Arrivals {
 public:
  Arrivals(const RankProcesses& processes, Reception& reception, SharedJobPage& page)
      : processes_(processes), reception_(reception), page_(page) {}

  // Waits until the agents of all hosts have come.
  Status wait(const TakenSignals& signals, RemoteShells* shells);
  std::vector<std::unique_ptr<RemoteHost>> take() { return std::move(visitors_); }

 private:
  Status receive();
  int count() const;
  void tell_waiting();
  bool has_come(const std::string& name) const;
  std::vector<std::string> missing_hosts() const;
  Error late() const;

  const RankProcesses& processes_;
  Reception& reception_;
  SharedJobPage& page_;
  std::vector<std::unique_ptr<RemoteHost>> visitors_;
  StatusAskers askers_;
  Deadline silence_ = Deadline::after(kTellWaitingS);
};

Status Arrivals::receive() {
  TRIREME_TRY(arrived, reception_.receive({}, judge_of_agents, kJoinLookMs));
  for (Reception::Visitor& visitor : arrived) {
    if (askers_.take(visitor) || visitor.hello.purpose == Purpose::Parts) continue;
    visitors_.push_back(std::make_unique<RemoteHost>(std::move(visitor.socket), page_));
  }
  if (askers_.receive()) askers_.answer({.kind = StatusAnswer::Kind::NotBegun});
  for (const auto& visitor : visitors_) visitor->receive();
  std::erase_if(visitors_, [](const auto& visitor) { return visitor->is_broken(); });
  return Done{};
}

bool Arrivals::has_come(const std::string& name) const {
  return std::any_of(visitors_.begin(), visitors_.end(), [&](const auto& visitor) {
    return visitor->asks_for_terms() && visitor->name() == name;
  });
}

// Agents with the same name count once, and this host is here already.
int Arrivals::count() const {
  std::set<std::string> names;
  for (const auto& visitor : visitors_) {
    if (visitor->asks_for_terms()) names.insert(visitor->name());
  }
  for (const NamedHost& host : processes_.others.named) {
    if (is_this_host(processes_, host.name)) names.insert(host.name);
  }
  return int(names.size());
}

std::vector<std::string> Arrivals::missing_hosts() const {
  std::vector<std::string> missing;
  for (const NamedHost& host : processes_.others.named) {
    if (!is_this_host(processes_, host.name) && !has_come(host.name)) missing.push_back(host.name);
  }
  return missing;
}

void Arrivals::tell_waiting() {
  if (silence_.left_ms() > 0 || !processes_.note) return;
  silence_ = Deadline::after(kTellWaitingS);
  const std::vector<std::string> missing = missing_hosts();
  processes_.note(
      missing.empty()
          ? fmt::format("{} of {} agents have joined; start the others: trireme agent --join {}",
                        count(), num_hosts(processes_.others), reception_.address())
          : fmt::format("waiting for the agents of {}", fmt::join(missing, ", ")));
}

Error Arrivals::late() const {
  const std::vector<std::string> missing = missing_hosts();
  return {ErrorKind::Runtime,
          missing.empty()
              ? fmt::format("{} of {} agents have joined in {} s; agents with the same name count "
                            "once (trireme agent --name)",
                            count(), num_hosts(processes_.others), processes_.start_timeout_s)
              : fmt::format("the agents of these hosts have not joined in {} s: {}; look at the "
                            "messages of {} above",
                            processes_.start_timeout_s, fmt::join(missing, ", "),
                            processes_.others.shell.front())};
}

Status Arrivals::wait(const TakenSignals& signals, RemoteShells* shells) {
  const Deadline deadline = Deadline::after(processes_.start_timeout_s);
  while (count() < num_hosts(processes_.others)) {
    TRIREME_TRY_DONE(receive());
    if (shells != nullptr) shells->look(processes_.log);
    while (const int signal = signals.next()) {
      if (signal == SIGINT || signal == SIGTERM) {
        return Error{ErrorKind::Runtime, "stopped before all hosts have joined"};
      }
    }
    if (deadline.left_ms() == 0) return late();
    tell_waiting();
  }
  return Done{};
}

// Starts the agents of the other hosts by a remote shell each.
Status start_shells(const RankProcesses& processes, RemoteShells& shells) {
  for (const NamedHost& host : processes.others.named) {
    if (!is_this_host(processes, host.name)) TRIREME_TRY_DONE(shells.start(host.name));
  }
  return Done{};
}

// The launcher is the agent of its host if the host is named, else it only takes part in decisions.
Result<RanksEnd> run_on_hosts(const RankProcesses& processes, const std::string& secret,
                              const TakenSignals& signals, SharedJobPage& page,
                              const std::string& memory_folder) {
  const OtherHosts& others = processes.others;
  TRIREME_TRY_DONE(check_hosts(processes));
  const auto own =
      std::find_if(others.named.begin(), others.named.end(),
                   [&](const NamedHost& host) { return is_this_host(processes, host.name); });
  const bool is_named = own != others.named.end();
  JobTerms terms = terms_of(processes, !is_named);
  TRIREME_TRY(coord, open_coord(terms.coord, terms.coord_keys));
  TRIREME_TRY_DONE(take_coord(*coord, terms));
  TRIREME_TRY(listener, listen_for_others(processes));
  Reception reception(std::move(listener), secret, processes.log);
  if (processes.note) {
    processes.note(others.secret.empty() ? fmt::format("status: trireme status {}", others.run_dir)
                                         : fmt::format("status: trireme status {} (or {})",
                                                       others.run_dir, reception.address()));
  }
  std::vector<std::string> agent = others.agent;
  agent.push_back(reception.address());
  RemoteShells shells({others.shell, agent, secret, signals.before()});
  TRIREME_TRY_DONE(start_shells(processes, shells));
  Arrivals arrivals(processes, reception, page);
  TRIREME_TRY_DONE(arrivals.wait(signals, &shells));
  const int slots = !is_named ? 0 : own->slots > 0 ? own->slots : terms.usual_slots;
  MemberOptions member{.terms = std::move(terms),
                       .name = is_named ? own->name : "launcher@" + processes.host,
                       .slots = slots,
                       .domain = is_named ? own->domain : "",
                       .host = processes.host,
                       .secret = secret,
                       .layouts = {processes.layout, processes.fitting},
                       .memory_folder = memory_folder,
                       .classify = processes.classify,
                       .log = processes.log,
                       .note = processes.note,
                       .is_launcher = true,
                       .on_turn = [&] { shells.look(processes.log); }};
  return JobMember(std::move(member), std::move(reception), arrivals.take(), std::move(coord),
                   signals, page)
      .run();
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
  const std::string memory_folder = memory ? memory->path() : "";
  return others.any() ? run_on_hosts(processes, secret, signals, page, memory_folder)
                      : run_job_here(processes, secret, signals, page, memory_folder);
}

}  // namespace trireme
