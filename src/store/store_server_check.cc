// How a server finds that its own metadata are damaged on its disk, and writes them again from its
// memory.

#include <fmt/format.h>

#include "store/server_log_file.h"
#include "store/store_server.h"

namespace trireme {
namespace {

constexpr double kRewriteS = 8.0;

void add_problem(std::string& problems, const std::string& problem) {
  problems += (problems.empty() ? "" : "; ") + problem;
}

}  // namespace

// The files are small, and are written only when the server changes its store, so the lock is held.
Status StoreServer::check_identity(bool mends, std::string& problems) {
  const std::lock_guard lock(mutex_);
  const std::string& folder = options_.folder;
  const Result<FolderIdentity> identity = read_identity(folder);
  if (!identity.ok() || *identity != description_.identity) {
    add_problem(problems, identity.ok() ? identity_path(folder) + ": is of another server"
                                        : identity.error().message);
    if (mends) TRIREME_TRY_DONE(write_identity(folder, description_.identity, nullptr));
  }
  ServerDescription written;
  LogStart start;
  const Status read = read_log_servers(folder, written, start);
  const bool is_same = read.ok() && start == log_start_ &&
                       written.address == description_.address &&
                       written.log_address == description_.log_address &&
                       written.log_servers == description_.log_servers;
  if (is_same) return Done{};
  add_problem(problems, read.ok() ? folder + "/log.json: is old" : read.error().message);
  return mends ? write_log_servers(folder, description_, log_start_) : Status(Done{});
}

Result<std::string> StoreServer::check_metadata(bool mends) {
  std::string problems;
  std::shared_ptr<LogOfServer> running;
  {
    const std::lock_guard lock(mutex_);
    if (description_.identity.store == 0) return problems;
    running = log_;
    if (!mends) problems = why_no_log_;  // only a new place in the log mends that
  }
  // Without store.json the disk is gone, and another one may come.
  TRIREME_TRY_DONE(check_disk());
  TRIREME_TRY_DONE(check_identity(mends, problems));
  const Status files = running == nullptr ? Status(Done{}) : running->log->check_files();
  if (files.ok()) return problems;
  add_problem(problems, files.error().message);
  if (mends) TRIREME_TRY_DONE(running->log->rewrite_files(Deadline::after(kRewriteS)));
  return problems;
}

void StoreServer::mend_metadata() {
  const Result<std::string> found = check_metadata(true);
  if (!options_.log || (found.ok() && found->empty())) return;
  options_.log(found.ok()
                   ? fmt::format("{}; it was written again", *found)
                   : fmt::format("its metadata are damaged and could not be written again: {}",
                                 found.error().message));
}

}  // namespace trireme
