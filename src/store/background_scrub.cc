#include "store/background_scrub.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "base/clock.h"
#include "base/failure.h"
#include "comm/tcp/socket.h"
#include "store/buffer_pool.h"
#include "store/metadata_records.h"

namespace trireme {
namespace {

constexpr double kMetadataS = 600.0;  // from one look at the metadata to the next in a long round

}  // namespace

BackgroundScrub::BackgroundScrub(const BackgroundScrubOptions& options, Chunks chunks,
                                 Report report, std::function<void()> check_metadata, TcpLog log)
    : options_(options),
      chunks_(std::move(chunks)),
      report_(std::move(report)),
      check_metadata_(std::move(check_metadata)),
      log_(std::move(log)) {
  if (options_.disk_share > 0.0) thread_ = std::thread([this] { run(); });
}

BackgroundScrub::~BackgroundScrub() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  has_ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool BackgroundScrub::rest(double seconds) {
  std::unique_lock lock(mutex_);
  return !has_ended_.wait_for(lock, std::chrono::duration<double>(seconds),
                              [&] { return is_over_; });
}

void BackgroundScrub::run() {
  while (rest(options_.rest_s)) {
    try {
      if (check_metadata_) check_metadata_();
      const std::shared_ptr<ChunkFolder> chunks = chunks_();
      if (chunks != nullptr) check_all(*chunks);
    } catch (const std::exception& exception) {
      if (log_) log_("chunks are not checked now: " + error_of(exception).message);
    }
  }
}

// Each round begins at a random chunk. So a server that restarts often still checks all chunks in
// time.
void BackgroundScrub::check_all(ChunkFolder& chunks) {
  Result<std::vector<ChunkName>> names = chunks.list();
  if (!names.ok() || names->empty()) return;
  std::ranges::sort(*names);
  const auto first = ptrdiff_t(std::random_device()() % names->size());
  std::rotate(names->begin(), names->begin() + first, names->end());
  BlockBuffer buffer{size_t(kMostChunkBytes)};
  Deadline next_look = Deadline::after(kMetadataS);
  for (const ChunkName& name : *names) {
    if (check_metadata_ && next_look.left_ms() == 0) {
      check_metadata_();
      next_look = Deadline::after(kMetadataS);
    }
    const int64_t begin_ns = monotonic_ns();
    ChunkRead read = chunks.check(name, buffer.bytes());
    // A second look tells a wrong byte on the disk from one in memory.
    if (read.state == ChunkState::Damaged) read = chunks.check(name, buffer.bytes());
    const double read_s = double(monotonic_ns() - begin_ns) * 1e-9;
    if (read.state == ChunkState::Damaged) report_damage(name, read.why);
    // The chunk stays where it is, because the disk may read it again.
    if (read.state == ChunkState::Unreadable && log_) log_(read.why);
    if (!rest(rest_after(read_s, options_.disk_share))) return;
  }
}

void BackgroundScrub::report_damage(ChunkName name, const std::string& why) {
  const Status reported = report_(name);
  if (!log_) return;
  log_(reported.ok() ? why +
                           "; the next repair or scrub writes the chunk again, or removes it if "
                           "no file needs it"
                     : fmt::format("{}; the metadata could not be told now: {}", why,
                                   reported.error().message));
}

}  // namespace trireme
