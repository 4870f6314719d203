#include "cli/stored_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <mutex>
#include <ostream>
#include <utility>

#include "cli/open_store.h"

namespace trireme {
namespace {

Result<StoreUrl> run_in_store(const std::string& url) {
  TRIREME_TRY(parsed, parse_store_url(url));
  if (parsed.path.empty()) {
    return usage(url + ": names a store; add the name that the run has in it, as in " + url +
                 "/run");
  }
  return parsed;
}

Result<std::unique_ptr<Store>> open_for_writing(const std::string& url, const CommandIo& io) {
  TRIREME_TRY(open,
              open_store(url, {}, {.access = StoreAccess::Write, .lock_wait_s = kWriterLockS}, io));
  return std::move(open.store);
}

}  // namespace

struct StoredRun::Copying {
  Copying(RunCopy copy, OpenForWriting open) : copy(std::move(copy)), open(std::move(open)) {}

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return is_wanted || is_over; });
      if (!std::exchange(is_wanted, false)) break;
      lock.unlock();
      Status updated = update();
      lock.lock();
      last = std::move(updated);
    }
    has_ended = true;
    changed.notify_all();
  }
  // Hands over what is thrown, such as for lack of memory, and training goes on.
  Status update() {
    try {
      TRIREME_TRY(store, open());
      return copy.update(*store);
    } catch (const std::exception& error) {
      return damaged(error.what());
    }
  }

  RunCopy copy;  // of the thread, like `open`
  const OpenForWriting open;
  std::mutex mutex;  // guards everything below
  std::condition_variable changed;
  bool is_wanted = false;
  bool is_over = false;
  bool has_ended = false;
  Status last = Done{};  // of the last update; Done, too, once its failure was told
};

StoredRun::StoredRun(RunCopy copy, OpenForWriting open,
                     std::function<void(const std::string&)> tell,
                     std::function<double()> deadline_s)
    : copying_(std::make_shared<Copying>(std::move(copy), std::move(open))),
      tell_(std::move(tell)),
      deadline_s_(std::move(deadline_s)),
      worker_([copying = copying_] { copying->work(); }) {}

StoredRun::~StoredRun() {
  if (worker_.joinable() && !stop()) {
    tell_("the copy of the run in the store did not end in time, so it may be incomplete");
  }
  tell_failure();
}

bool StoredRun::stop() {
  const std::chrono::duration<double> patience(deadline_s_());
  std::unique_lock lock(copying_->mutex);
  copying_->is_over = true;
  copying_->changed.notify_all();
  const bool has_ended =
      copying_->changed.wait_for(lock, patience, [this] { return copying_->has_ended; });
  lock.unlock();
  // A thread whose call to a disk never returns cannot be joined.
  has_ended ? worker_.join() : worker_.detach();
  return has_ended;
}

void StoredRun::on_checkpoint(const CheckpointReport&) {
  const std::lock_guard lock(copying_->mutex);
  copying_->is_wanted = true;
  copying_->changed.notify_all();
}

void StoredRun::on_step(const StepReport&) { tell_failure(); }

void StoredRun::tell_failure() {
  Status failure = Done{};
  {
    const std::lock_guard lock(copying_->mutex);
    std::swap(failure, copying_->last);
  }
  if (failure.ok()) return;
  tell_(
      fmt::format("the copy of the run in the store is not up to date: {}; the next checkpoint "
                  "tries again",
                  failure.error().message));
}

Status StoredRun::finish() {
  {
    const std::lock_guard lock(copying_->mutex);
    copying_->is_wanted = true;
  }
  if (!stop()) {
    return Error{ErrorKind::Runtime,
                 "the copy did not end in time, because a disk of the store does not answer; the "
                 "run itself is whole on this host"};
  }
  const std::lock_guard lock(copying_->mutex);
  return std::exchange(copying_->last, Done{});
}

double usual_deadline_s(const std::string& folder) {
  constexpr double kLeastS = 600.0, kMostS = 86'400.0, kBytesPerS = 1e7;
  double bytes = 0.0;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code no_file;
    if (!entry->is_regular_file(no_file)) continue;
    const uintmax_t size = entry->file_size(no_file);
    if (!no_file) bytes += double(size);
  }
  return std::min(kLeastS + bytes / kBytesPerS, kMostS);
}

Status take_stored_out(RunConfigOptions& config, std::string& out) {
  if (!is_store_url(out)) return Done{};
  TRIREME_TRY(url, run_in_store(out));
  config.overrides.push_back("checkpoint.store=" + out);
  out = fmt::format("runs/{}/{}", url.store, url.path);
  return Done{};
}

Status prepare_stored_run(const std::string& url, const std::string& folder,
                          const std::string& resume, CommandIo& io) {
  TRIREME_TRY(place, run_in_store(url));
  TRIREME_TRY(open, open_store(url, {}, {.access = StoreAccess::Read}, io));
  if (resume == "auto") {
    TRIREME_TRY(step, fetch_newer_run(*open.store, place.path, folder));
    if (step >= 0) {
      io.err << fmt::format("{} has a newer checkpoint, of step {}, than {}: it was fetched\n", url,
                            step, folder);
    }
    return Done{};
  }
  TRIREME_TRY(is_used, has_run(*open.store, place.path));
  if (!is_used) return Done{};
  return usage(
      fmt::format("{} has a run: continue it with --resume auto, or choose another name", url));
}

Result<std::unique_ptr<StoredRun>> stored_run(const std::string& url, const std::string& folder,
                                              CommandIo& io) {
  if (url.empty()) return std::unique_ptr<StoredRun>();
  TRIREME_TRY(place, run_in_store(url));
  // A thread that is left behind has its own copy of what it needs of `io`.
  return std::make_unique<StoredRun>(
      RunCopy(folder, place.path), [url, io = io] { return open_for_writing(url, io); },
      [&io](const std::string& text) { io.err << "warning: " << text << "\n"; },
      [folder] { return usual_deadline_s(folder); });
}

}  // namespace trireme
