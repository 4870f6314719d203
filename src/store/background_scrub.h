#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "comm/tcp/handshake.h"
#include "store/chunk_folder.h"

namespace trireme {

struct BackgroundScrubOptions {
  double disk_share = 0.0;  // of the time, in which chunks are read; 0: none is
  double rest_s = 60.0;     // before each round over all chunks
};

// Returns how long nothing is read after a read, so that reads take no more than this share of the
// time.
constexpr double rest_after(double read_s, double disk_share) {
  return read_s * (1.0 - disk_share) / disk_share;
}

// Reads the chunks of a disk one after the other on a thread of its own, again and again, and
// reports those that are damaged.
class BackgroundScrub {
 public:
  // Returns the chunks to check, or null if there are none now.
  using Chunks = std::function<std::shared_ptr<ChunkFolder>()>;
  // Must return within a few seconds, because the destructor waits for it.
  using Report = std::function<Status(ChunkName)>;

  // `check_metadata` looks at what else is on the disk; it is called before each round, and every
  // ten minutes in a long one. It may be empty.
  BackgroundScrub(const BackgroundScrubOptions& options, Chunks chunks, Report report,
                  std::function<void()> check_metadata, TcpLog log);
  ~BackgroundScrub();

 private:
  void run();
  void check_all(ChunkFolder& chunks);
  void report_damage(ChunkName name, const std::string& why);
  bool rest(double seconds);  // false: it is over

  const BackgroundScrubOptions options_;
  const Chunks chunks_;
  const Report report_;
  const std::function<void()> check_metadata_;
  const TcpLog log_;
  std::mutex mutex_;
  std::condition_variable has_ended_;
  bool is_over_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace trireme
