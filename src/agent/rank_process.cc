#include "agent/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "agent/place_variables.h"
#include "agent/rank_exit_code.h"
#include "base/new_program.h"

namespace trireme {
namespace {

constexpr int64_t kMostOutput = 64 << 10;
constexpr double kKillS = 2.0;

void keep_in_child(int fd) { ::fcntl(fd, F_SETFD, 0); }

// Runs in the child process, where nothing may be allocated.
[[noreturn]] void become_rank(const NewProgram& program, const sigset_t& mask,
                              const LinkDescriptors& link, int error_file) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  if (error_file >= 0) dup2(error_file, STDERR_FILENO);
  for (const int fd : {link.socket, link.page, link.terminal, link.pages}) keep_in_child(fd);
  program.become("/proc/self/exe");
  ::_exit(kFailedExitCode);
}

NewProgram program_of(const RankStart& start, const LinkDescriptors& link) {
  NewProgram::Variables variables = variables_of(start.place, start.ranks_on_host);
  variables.emplace_back(kMemoryFolderVariable, start.memory_folder);
  variables.emplace_back(kFailureDomainVariable, start.failure_domain);
  variables.emplace_back(kLinkVariable, link_text(link));
  return NewProgram(start.command, variables);
}

}  // namespace

Result<RankProcess> start_rank(const RankStart& start) {
  TRIREME_TRY(pages, SharedRankPages::make());
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return Error{ErrorKind::Runtime, fmt::format("socketpair: {}", std::strerror(errno))};
  }
  RankProcess rank{.socket = sockets[0],
                   .pages = std::make_shared<SharedRankPages>(std::move(pages))};
  if (start.place.rank > 0) rank.error_file = memfd_create("trireme-errors", MFD_CLOEXEC);
  const LinkDescriptors link{.socket = sockets[1],
                             .page = start.page,
                             .terminal = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0),
                             .pages = rank.pages->fd()};
  const NewProgram program = program_of(start, link);
  rank.pid = fork();
  if (rank.pid == 0) become_rank(program, start.mask, link, rank.error_file);
  const int error = errno;
  ::close(sockets[1]);
  if (link.terminal >= 0) ::close(link.terminal);
  if (rank.pid > 0) return rank;
  close_descriptors(rank);
  return Error{ErrorKind::Runtime, fmt::format("rank {} cannot be started: {}", start.place.rank,
                                               std::strerror(error))};
}

void send_order(const RankProcess& rank, const EpochOrder& order) {
  ::send(rank.socket, &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::optional<RankReport> next_report(RankProcess& rank) {
  if (rank.socket < 0) return std::nullopt;
  RankReport report;
  const ssize_t got = ::recv(rank.socket, &report, sizeof report, MSG_DONTWAIT);
  if (got == ssize_t(sizeof report)) {
    report.text[sizeof report.text - 1] = '\0';
    return report;
  }
  if (got == 0) {  // it has ended
    ::close(rank.socket);
    rank.socket = -1;
  }
  return std::nullopt;
}

bool await_end(int pid, Deadline deadline) {
  const int pidfd = int(::syscall(SYS_pidfd_open, pid, 0));
  pollfd entry{pidfd, POLLIN, 0};
  bool has_ended = waitpid(pid, nullptr, WNOHANG) != 0;
  while (!has_ended && deadline.left_ms() > 0) {
    // Kernels before 5.3 have no process descriptors. Then poll() only sleeps for 1 ms.
    ::poll(&entry, 1, pidfd >= 0 ? deadline.left_ms() : 1);
    has_ended = waitpid(pid, nullptr, WNOHANG) != 0;
  }
  if (pidfd >= 0) ::close(pidfd);
  return has_ended;
}

void kill_rank(RankProcess& rank) {
  if (rank.pid > 0) kill(rank.pid, SIGKILL);
  if (rank.pid > 0) await_end(rank.pid, Deadline::after(kKillS));
  rank.pid = -1;
  close_descriptors(rank);
}

std::string error_output_of(const RankProcess& rank) {
  if (rank.error_file < 0) return "";
  std::string text(static_cast<size_t>(kMostOutput), '\0');
  const ssize_t bytes = pread(rank.error_file, text.data(), text.size(), 0);
  text.resize(size_t(std::max<ssize_t>(bytes, 0)));
  return text;
}

void close_descriptors(RankProcess& rank) {
  for (int* fd : {&rank.error_file, &rank.socket}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
}

}  // namespace trireme
