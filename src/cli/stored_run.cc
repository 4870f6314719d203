#include "cli/stored_run.h"

#include <fmt/format.h>

#include <exception>
#include <ostream>
#include <utility>

#include "cli/open_store.h"

namespace trireme {
namespace {

// A store in folders has one writer at a time, and a scrub may take that long.
constexpr double kLockS = 60.0;

Result<StoreUrl> run_in_store(const std::string& url) {
  TRIREME_TRY(parsed, parse_store_url(url));
  if (parsed.path.empty()) {
    return usage(url + ": names a store; add the name that the run has in it, as in " + url +
                 "/run");
  }
  return parsed;
}

Result<std::unique_ptr<Store>> open_for_writing(const std::string& url, const CommandIo& io) {
  TRIREME_TRY(open, open_store(url, {}, {.access = StoreAccess::Write, .lock_wait_s = kLockS}, io));
  return std::move(open.store);
}

}  // namespace

StoredRun::StoredRun(RunCopy copy, OpenForWriting open,
                     std::function<void(const std::string&)> tell)
    : copy_(std::move(copy)),
      open_(std::move(open)),
      tell_(std::move(tell)),
      worker_([this] { work(); }) {}

StoredRun::~StoredRun() {
  stop();
  tell_failure();
}

void StoredRun::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

void StoredRun::on_checkpoint(const CheckpointReport&) {
  {
    const std::lock_guard lock(mutex_);
    is_wanted_ = true;
  }
  changed_.notify_all();
}

void StoredRun::on_step(const StepReport&) { tell_failure(); }

void StoredRun::tell_failure() {
  std::string failure;
  {
    const std::lock_guard lock(mutex_);
    failure = std::exchange(failure_, "");
  }
  if (failure.empty()) return;
  tell_(
      fmt::format("the copy of the run in the store is not up to date: {}; the next checkpoint "
                  "tries again",
                  failure));
}

// The thread of the copy hands over what is thrown, such as for lack of memory, and training goes
// on.
Status StoredRun::update() {
  try {
    TRIREME_TRY(store, open_());
    return copy_.update(*store);
  } catch (const std::exception& error) {
    return damaged(error.what());
  }
}

void StoredRun::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_wanted_ || is_over_; });
    if (!std::exchange(is_wanted_, false)) return;
    lock.unlock();
    const Status updated = update();
    lock.lock();
    failure_ = updated.ok() ? "" : updated.error().message;
  }
}

Status StoredRun::finish() {
  {
    const std::lock_guard lock(mutex_);
    is_wanted_ = false;
  }
  stop();
  failure_.clear();
  return update();
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
  return std::make_unique<StoredRun>(
      RunCopy(folder, place.path), [url, &io] { return open_for_writing(url, io); },
      [&io](const std::string& text) { io.err << "warning: " << text << "\n"; });
}

}  // namespace trireme
