#include "agent/host_agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>

#include "agent/agent_channel.h"
#include "agent/agent_listener.h"
#include "agent/job_member.h"
#include "agent/memory_folder.h"
#include "agent/taken_signals.h"

namespace trireme {
namespace {

constexpr double kGreetS = 5.0;
constexpr int kTermsLookMs = 100;

// The shell that has started this process may end, and whoever reads its output, too.
void outlive_the_shell() {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, 0);
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
}

struct Invitation {
  JobTerms terms;
  Socket listener;  // at which this host is reached by the others
};

// Waits for the terms of the job, which a launcher tells once all its hosts have come.
Result<Invitation> ask_for_terms(const HostAgentOptions& options, const TakenSignals& signals,
                                 Deadline deadline) {
  Socket listener;
  if (!options.listen.empty()) {  // a wrong address is refused before this host joins
    TRIREME_TRY(given, listen_for_agents(options.listen, false));
    listener = std::move(given);
  }
  TRIREME_TRY(socket, connect_to(options.join, deadline));
  if (!listener.is_open()) {
    TRIREME_TRY(usual, listen_for_agents(interface_of(own_address(socket)), false));
    listener = std::move(usual);
  }
  TRIREME_TRY_DONE(
      greet(socket, options.secret, {.purpose = Purpose::Agent}, Deadline::after(kGreetS)));
  AgentChannel channel(std::move(socket));
  channel.send({.kind = AgentMessageKind::Join, .number = options.slots}, options.name);
  while (!channel.is_broken()) {
    channel.flush();
    if (const auto message = channel.next()) {
      if (message->head.kind != AgentMessageKind::Terms) continue;
      TRIREME_TRY(terms, check_terms(message->text()));
      return Invitation{std::move(terms), std::move(listener)};
    }
    while (const int signal = signals.next()) {
      if (signal == SIGINT || signal == SIGTERM) {
        return Error{ErrorKind::Runtime, "stopped before the job has begun"};
      }
    }
    if (deadline.left_ms() == 0) {
      return Error{ErrorKind::Runtime, fmt::format("{} has not begun the job in {} s", options.join,
                                                   options.patience_s)};
    }
    std::vector<pollfd> entries = {{signals.fd(), POLLIN, 0}};
    channel.add_descriptors(entries);
    ::poll(entries.data(), entries.size(), kTermsLookMs);
  }
  return Error{ErrorKind::Runtime,
               fmt::format("the agent at {} has left: {}", options.join, channel.why_broken())};
}

// This host as the terms of the job and the options of the agent describe it.
NamedHost own_of(const HostAgentOptions& options, const JobTerms& terms) {
  const auto named = std::find_if(terms.hosts.begin(), terms.hosts.end(),
                                  [&](const NamedHost& host) { return host.name == options.name; });
  NamedHost own = named != terms.hosts.end() ? *named : NamedHost{options.name, terms.usual_slots};
  if (options.slots > 0) own.slots = options.slots;
  if (!options.domain.empty()) own.domain = options.domain;
  return own;
}

Status enter(const std::string& folder, const std::string& host) {
  if (::chdir(folder.c_str()) == 0) return Done{};
  return usage(
      fmt::format("the folder {} of the job cannot be entered on host {}: {}; all hosts "
                  "must see the folder of the job under the same path",
                  folder, host, std::strerror(errno)));
}

}  // namespace

Result<RanksEnd> run_host_agent(const HostAgentOptions& options) {
  outlive_the_shell();
  const TakenSignals signals;
  TRIREME_TRY(page, SharedJobPage::make());
  TRIREME_TRY(invitation, ask_for_terms(options, signals, Deadline::after(options.patience_s)));
  JobTerms& terms = invitation.terms;
  TRIREME_TRY_DONE(enter(terms.folder, options.name));
  TRIREME_TRY(layouts, options.layouts_of(terms));
  TRIREME_TRY(coord, open_coord(terms.coord, terms.coord_keys));
  // It outlives the ranks. Ranks without one keep no checkpoints in memory.
  const Result<MemoryFolder> memory = MemoryFolder::make();
  if (!memory.ok() && options.log) options.log(memory.error().message);
  const NamedHost own = own_of(options, terms);
  const std::string run_dir = terms.run_dir;
  MemberOptions member{.terms = std::move(terms),
                       .name = options.name,
                       .slots = own.slots,
                       .domain = own.domain,
                       .host = options.host,
                       .secret = options.secret,
                       .layouts = std::move(layouts),
                       .memory_folder = memory.ok() ? memory->path() : "",
                       .classify = options.classify,
                       .log = options.log};
  JobMember job(std::move(member),
                Reception(std::move(invitation.listener), options.secret, options.log), {},
                std::move(coord), signals, page);
  TRIREME_TRY(end, job.run());
  end.run_dir = run_dir;
  return std::move(end);
}

}  // namespace trireme
