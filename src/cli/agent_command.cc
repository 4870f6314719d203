#include "cli/agent_command.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <ostream>

#include "agent/host_agent.h"
#include "agent/place_variables.h"
#include "cli/launch_command.h"
#include "comm/tcp/socket.h"
#include "comm/tcp/wire.h"
#include "device/host.h"

namespace trireme {
namespace {

constexpr double kSecretS = 10.0;  // for the launcher to write the secret
constexpr size_t kMostSecretBytes = 4096;

// Reads the first line of standard input, where launchers write the secret: no other user of this
// host sees it there.
Result<std::string> secret_from_input() {
  const Deadline deadline = Deadline::after(kSecretS);
  std::string line;
  while (line.size() < kMostSecretBytes) {
    pollfd entry{STDIN_FILENO, POLLIN, 0};
    if (::poll(&entry, 1, deadline.left_ms()) <= 0) break;
    char c = 0;
    if (::read(STDIN_FILENO, &c, 1) != 1) break;
    if (c == '\n' && !line.empty()) return line;
    if (c == '\n') break;
    line += c;
  }
  return usage(
      fmt::format("the secret of the job is missing; set the variable {} to that of the "
                  "launcher, or write it as a line to standard input",
                  kSecretVariable));
}

}  // namespace

Result<int> run_agent(const AgentOptions& options, CommandIo& io) {
  if (options.leader.empty()) {
    return usage("--join is missing: give the address HOST:PORT at which the launcher listens");
  }
  if (options.slots < 0 || options.slots > kLargestTcpWorld) {
    return usage(
        fmt::format("--slots {}: expected 0 to {} ranks", options.slots, kLargestTcpWorld));
  }
  if (!options.domain.empty()) TRIREME_TRY_DONE(check_domain(options.domain));
  if (options.wait_s < 0) {
    return usage(fmt::format("--wait {}: expected a number of seconds", options.wait_s));
  }
  HostAgentOptions agent{
      .join = options.leader,
      .listen = options.listen,
      .secret = io.launch.secret,
      .name = options.name.empty() ? host_name() : options.name,
      .host = host_name(),
      .slots = int(options.slots),
      .domain = options.domain,
      .patience_s = double(options.wait_s),
      .layouts_of = [&io](const JobTerms& terms) { return layouts_of(terms, io); },
      .classify = classify_by_built_in_rules(),
      .log = [&io](const std::string& text) { io.err << "warning: " << text << "\n"; }};
  if (agent.secret.empty()) {
    TRIREME_TRY(secret, secret_from_input());
    agent.secret = std::move(secret);
  }
  TRIREME_TRY(end, run_host_agent(agent));
  note_last_failures(end, end.run_dir);
  return 0;
}

}  // namespace trireme
