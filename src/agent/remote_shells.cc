#include "agent/remote_shells.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "agent/rank_exit_code.h"
#include "base/new_program.h"
#include "comm/fabric.h"
#include "comm/tcp/socket.h"

namespace trireme {
namespace {

constexpr double kEndS = 3.0;
constexpr int64_t kAgainNs = 10'000'000'000;  // from the end of a shell to its next start

// Remote shells join their words with spaces and give them to a shell there.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += c;
    }
  }
  return text + "'";
}

[[noreturn]] void become_shell(const NewProgram& program, int input, const sigset_t& mask) {
  setsid();  // agents outlive the launcher, and its terminal
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  dup2(input, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  program.become();
  ::_exit(127);
}

std::string name_of_status(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) == 127) return "was not found";
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

RemoteShells::~RemoteShells() {
  const Deadline by_themselves = Deadline::after(kEndS);
  const Deadline killed = Deadline::after(kEndS + 1.0);
  for (const Shell& shell : shells_) {
    while (shell.pid > 0 && waitpid(shell.pid, nullptr, WNOHANG) == 0 && killed.left_ms() > 0) {
      if (by_themselves.left_ms() == 0) ::kill(-shell.pid, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

std::vector<std::string> RemoteShells::words_for(const std::string& host) const {
  std::vector<std::string> words = options_.shell;
  words.push_back(host);
  for (const std::string& word : options_.agent) words.push_back(quoted(word));
  words.insert(words.end(), {"--name", quoted(host)});
  return words;
}

Status RemoteShells::start(Shell& shell) const {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Error{ErrorKind::Runtime, fmt::format("pipe: {}", std::strerror(errno))};
  }
  const NewProgram program(words_for(shell.host));
  shell.pid = fork();
  if (shell.pid == 0) become_shell(program, ends[0], options_.mask);
  const int error = errno;
  // A line is much shorter than a pipe, and while this process holds both ends, writing to a shell
  // that has ended already is no error.
  const std::string line = options_.secret + "\n";
  const bool is_written = ::write(ends[1], line.data(), line.size()) == ssize_t(line.size());
  for (const int end : ends) ::close(end);
  if (shell.pid > 0 && is_written) return Done{};
  return Error{ErrorKind::Runtime,
               fmt::format("{} cannot be started for host {}: {}", options_.shell.front(),
                           shell.host, std::strerror(error))};
}

Status RemoteShells::start(const std::string& host) {
  return start(shells_.emplace_back(Shell{.host = host}));
}

void RemoteShells::look(const std::function<void(const std::string&)>& tell) {
  for (Shell& shell : shells_) {
    int status = 0;
    if (shell.pid > 0 && waitpid(shell.pid, &status, WNOHANG) == shell.pid) {
      shell.pid = -1;
      shell.ended_ns = steady_now_ns();
      tell(fmt::format("the command {} of host {} {}", options_.shell.front(), shell.host,
                       name_of_status(status)));
    }
    if (shell.pid > 0 || steady_now_ns() - shell.ended_ns < kAgainNs) continue;
    shell.ended_ns = steady_now_ns();
    if (const Status started = start(shell); !started.ok()) tell(started.error().message);
  }
}

std::vector<std::string> RemoteShells::ended() const {
  std::vector<std::string> hosts;
  for (const Shell& shell : shells_) {
    if (shell.pid <= 0) hosts.push_back(shell.host);
  }
  return hosts;
}

}  // namespace trireme
