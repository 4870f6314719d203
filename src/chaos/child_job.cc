#include "chaos/child_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/new_program.h"

namespace trireme {
namespace {

constexpr int64_t kMostNs = 10'000'000'000;
constexpr std::chrono::milliseconds kPause(2);

// The process becomes the program. Only functions that are safe after fork() are called.
[[noreturn]] void become(const NewProgram& program, const char* path, int output) {
  const int input = ::open("/dev/null", O_RDONLY);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  program.become(path);
  ::_exit(127);
}

}  // namespace

Result<ChildJob> ChildJob::start(const std::vector<std::string>& words, const std::string& log,
                                 const sigset_t& mask) {
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (output < 0) return damaged(fmt::format("{}: {}", log, std::strerror(errno)));
  std::vector<std::string> all = {"trireme"};
  all.insert(all.end(), words.begin(), words.end());
  const NewProgram program(std::move(all));
  const int pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::setpgid(0, 0);  // Ctrl-C reaches the parent alone, which passes it on
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    become(program, "/proc/self/exe", output);
  }
  const int error = errno;
  ::close(output);
  if (pid < 0) {
    return Error{ErrorKind::Runtime,
                 fmt::format("the job cannot be started: {}", std::strerror(error))};
  }
  return ChildJob(pid);
}

ChildJob::ChildJob(ChildJob&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), exit_code_(other.exit_code_) {}

ChildJob::~ChildJob() {
  if (pid_ <= 0 || exit_code_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool ChildJob::has_ended() {
  if (exit_code_) return true;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

void ChildJob::send(int signal) const {
  if (!exit_code_) ::kill(pid_, signal);
}

bool succeeds(const std::vector<std::string>& words) {
  const NewProgram program(words);
  const int pid = ::fork();
  if (pid < 0) return false;
  if (pid == 0) become(program, words.front().c_str(), ::open("/dev/null", O_WRONLY));
  const int64_t end_ns = monotonic_ns() + kMostNs;
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (monotonic_ns() > end_ns) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(kPause);
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace trireme
