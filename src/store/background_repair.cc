#include "store/background_repair.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/failure.h"
#include "base/units.h"
#include "store/repair.h"

namespace trireme {
namespace {

constexpr double kAnswerS = 5.0;   // of the metadata; the end of the server waits for it
constexpr double kInVainS = 60.0;  // before the same work is tried again
constexpr int64_t kMovingBytes = int64_t{64} << 20;

// Changes whenever a repair may achieve something that it did not before.
std::string state_of(const Store& store, const Overview& overview) {
  std::string state =
      fmt::format("{} {} {}", overview.view, overview.num_incomplete, overview.num_blocks);
  for (const bool is_usable : store.usable()) state += is_usable ? '1' : '0';
  return state;
}

}  // namespace

BackgroundRepair::BackgroundRepair(const BackgroundRepairOptions& options, std::string secret,
                                   LedStore led_store, TcpLog log)
    : options_(options),
      secret_(std::move(secret)),
      led_store_(std::move(led_store)),
      log_(std::move(log)) {
  if (options_.round_s > 0.0) thread_ = std::thread([this] { run(); });
}

BackgroundRepair::~BackgroundRepair() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  has_ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool BackgroundRepair::rest(double seconds) {
  std::unique_lock lock(mutex_);
  return !has_ended_.wait_for(lock, std::chrono::duration<double>(seconds),
                              [&] { return is_over_; });
}

void BackgroundRepair::run() {
  while (rest(options_.round_s)) {
    try {
      do_round();
    } catch (const std::exception& exception) {
      if (log_) log_("chunks are not repaired now: " + error_of(exception).message);
    }
  }
}

StoreOptions BackgroundRepair::options_of(StoreAccess access) const {
  StoreOptions options{.access = access, .secret = secret_};
  options.metadata_s = kAnswerS;
  options.most_moving_bytes = kMovingBytes;
  return options;
}

void BackgroundRepair::do_round() {
  const std::optional<StoreFile> file = led_store_();
  if (!file) {
    absent_.clear();
    maintainer_ns_ = 0;
    return;
  }
  const auto store = Store::open(*file, options_of(StoreAccess::Read));
  if (!store.ok()) return;
  const Result<Overview> overview = (*store)->overview();
  if (!overview.ok()) return;
  const Work work = look(**store, *overview);
  const bool may_begin_now = may_begin(*overview);
  if (!work.is_any() || !may_begin_now) return;
  const std::string state = state_of(**store, *overview);
  if (state == state_in_vain_ && seconds_since(in_vain_ns_) < kInVainS) return;
  const Status done = do_work(*file, work, overview->maintainer);
  if (!done.ok() && log_) log_("chunks are not repaired now: " + done.error().message);
  const Result<Overview> after = (*store)->overview();
  if (!after.ok()) return;
  state_in_vain_ = state_of(**store, *after);
  in_vain_ns_ = monotonic_ns();
}

BackgroundRepair::Work BackgroundRepair::look(Store& store, const Overview& overview) {
  Work work{.has_queue = overview.num_incomplete > 0};
  for (int server = 0; server < store.num_servers(); ++server) {
    if (store.target(server) != nullptr) {
      absent_.erase(server);
      continue;
    }
    const bool has_new_disk = store.has_new_disk(server);
    Absence& absence = absent_[server];
    if (absence.since_ns == 0 || absence.has_new_disk != has_new_disk) {
      absence = {monotonic_ns(), has_new_disk};
    }
    const double seconds = seconds_since(absence.since_ns);
    const bool is_drained = overview.servers[size_t(server)].state == ServerState::Drained;
    if (has_new_disk && !is_drained && seconds >= options_.new_disk_s) work.has_new_disk = true;
    const bool has_chunks = overview.chunks_of_server[size_t(server)] > 0;
    if (has_chunks && seconds >= options_.lost_server_s) work.lost.push_back(server);
  }
  return work;
}

bool BackgroundRepair::may_begin(const Overview& overview) {
  const std::pair now(overview.maintainer, overview.maintainer_renewals);
  if (maintainer_ns_ == 0 || now != maintainer_) {
    maintainer_ = now;
    maintainer_ns_ = monotonic_ns();
  }
  return overview.maintainer == 0 || seconds_since(maintainer_ns_) >= options_.lease_s;
}

Status BackgroundRepair::do_work(const StoreFile& file, const Work& work, uint64_t after) {
  StoreOptions options = options_of(StoreAccess::Maintain);
  options.maintains_after = after;
  TRIREME_TRY(store, Store::open(file, options));
  const auto on_progress = [this](const UpkeepProgress& progress) { return keep_rate(progress); };
  if (work.has_new_disk) TRIREME_TRY_DONE(take_in_new_disks(*store));
  TRIREME_TRY(totals, repair_queue(*store, on_progress));
  if (!work.lost.empty()) {
    TRIREME_TRY(moved, move_from_lost_servers(*store, work.lost, on_progress));
    totals.num_repaired += moved.num_repaired;
    totals.bytes += moved.bytes;
  }
  if (log_ && totals.num_repaired > 0) {
    log_(fmt::format("{} chunks of {} were repaired in the background", totals.num_repaired,
                     format_bytes(totals.bytes)));
  }
  return Done{};
}

// Waits until no more bytes were written than the rate allows.
Status BackgroundRepair::keep_rate(const UpkeepProgress& progress) {
  const double seconds = double(progress.ms) * 1e-3;
  const double due_s =
      options_.bytes_per_s > 0.0 ? double(progress.bytes) / options_.bytes_per_s : 0.0;
  if (rest(std::max(due_s - seconds, 0.0))) return Done{};
  return Error{ErrorKind::Runtime, "the server ends"};
}

}  // namespace trireme
