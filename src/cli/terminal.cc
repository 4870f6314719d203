#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "agent/mpirun_link.h"
#include "agent/place_variables.h"

namespace trireme {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int number(const char* name, int otherwise) {
  const std::string text = variable(name);
  int value = otherwise;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

// Reads the variables of our agent, then those of Open MPI's mpirun, then those of srun with a PMI.
// All give the size, the rank and the number of ranks on this host. What mpirun or srun has started
// may be an agent, which needs the secret of its job.
Launch read_launch() {
  const auto place = place_in([](const std::string& name) { return variable(name.c_str()); });
  if (!place.ok()) return {.error = place.error()};
  if (place->has_value()) {
    const TcpPlace& own = **place;
    const auto link = link_in(variable(kLinkVariable));
    if (!link.ok()) return {.error = link.error()};
    return {.ranks = own.size,
            .rank = own.rank,
            .ranks_on_host = number(kRanksOnHostVariable, own.size),
            .place = own,
            .link = *link,
            .memory_folder = variable(kMemoryFolderVariable),
            .failure_domain = variable(kFailureDomainVariable)};
  }
  if (const int ranks = number("OMPI_COMM_WORLD_SIZE", 0); ranks > 0) {
    Launch launch{.ranks = ranks,
                  .rank = number("OMPI_COMM_WORLD_RANK", 0),
                  .ranks_on_host = number("OMPI_COMM_WORLD_LOCAL_SIZE", ranks),
                  .agent = variable(kAgentVariable),
                  .secret = variable(kSecretVariable)};
    if (launch.agent.empty()) return launch;
    launch.place = TcpPlace{.epoch = uint64_t(std::max(1, number(kAgentEpochVariable, 1))),
                            .rank = launch.rank,
                            .size = ranks};
    launch.memory_folder = variable(kMemoryFolderVariable);
    return launch;
  }
  if (const int ranks = number("PMI_SIZE", 0); ranks > 0) {
    return {.ranks = ranks,
            .rank = number("PMI_RANK", 0),
            .ranks_on_host = number("MPI_LOCALNRANKS", ranks),
            .secret = variable(kSecretVariable)};
  }
  return {.secret = variable(kSecretVariable)};
}

std::string stores_folder_of(const std::string& named, const std::string& home) {
  if (!named.empty() || home.empty()) return named;
  return home + "/.trireme/stores";
}

}  // namespace

Environment read_environment() {
  return {.no_color = !variable("NO_COLOR").empty(),
          .ci = !variable("CI").empty(),
          .dumb = variable("TERM") == "dumb",
          .path = variable("PATH"),
          .stores_folder = stores_folder_of(variable("TRIREME_STORES"), variable("HOME")),
          .launch = read_launch()};
}

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

int terminal_columns(int fd) {
  struct winsize size {};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace trireme
