#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>

#include "cli/app.h"
#include "cli/printable.h"
#include "cli/store_inputs.h"

namespace {

// The model folders of an installed program, of build/trireme and of build/PRESET/trireme.
std::vector<std::string> model_folders() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const auto prefix = program.parent_path().parent_path();
  return {(prefix / "share" / "trireme" / "models").string(), (prefix / "models").string(),
          (prefix.parent_path() / "models").string()};
}

// Raises the limit of open files above the usual 1,024. Every rank keeps the shards of its
// checkpoint open, and ranks may be threads of one process.
void allow_many_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, 65536));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace trireme;
  std::ios::sync_with_stdio(false);
  // Ignores SIGXFSZ, so that a limit on file sizes makes writes fail like a full disk instead of
  // ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  allow_many_open_files();
  const Environment environment = read_environment();
  const bool draws = is_terminal(STDERR_FILENO) && !environment.ci && !environment.dumb;
  // Messages are always made printable; data only if they go to a terminal, which would obey
  // control sequences.
  PrintableBuffer shown_out(*std::cout.rdbuf()), shown_err(*std::cerr.rdbuf());
  std::ostream out(is_terminal(STDOUT_FILENO) ? &shown_out : std::cout.rdbuf());
  std::ostream err(&shown_err);
  err << std::unitbuf;
  CommandIo io{.out = out,
               .err = err,
               .err_is_terminal = draws,
               .color = draws && !environment.no_color,
               .model_folders = model_folders(),
               .stores_folder = environment.stores_folder,
               .launch = environment.launch,
               .open_input = store_inputs(environment.stores_folder, environment.launch.secret)};
  const std::vector<std::string> args(argv + 1, argv + argc);
  const int columns = is_terminal(STDOUT_FILENO) ? terminal_columns(STDOUT_FILENO) : 80;
  return run_app(args, environment, io, std::clamp(columns, 60, 110));
}
