#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/file_lock.h"
#include "base/result.h"
#include "raft/log_format.h"

namespace trireme {

// The log of one server in a folder that no other process may open meanwhile: the file `snapshot`
// and the newest segment `log-N`. Move-only; one thread at a time may call it. After an error
// nobody knows what is on the disk, so every later call returns that error, too.
class LogFile {
 public:
  // Makes the folder if it is missing. `contents` receives what is on the disk; a frame whose write
  // was cut off is removed.
  static Result<LogFile> open(const std::string& folder, LogContents& contents);
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&& other) noexcept;
  ~LogFile();

  // Returns once the frame is on the disk.
  Status append(const std::optional<LogVote>& vote, std::span<const LogEntry> entries);
  // Stores the snapshot, and starts a segment with `vote` and with `entries`, which are those after
  // it. A crash leaves the old state or the new one.
  Status save_snapshot(const LogSnapshot& snapshot, const LogVote& vote,
                       std::span<const LogEntry> entries);
  // Reads the files of a log that another thread may be writing, and returns what is damaged.
  static Status check(const std::string& folder);
  // Bytes of the segment.
  int64_t segment_bytes() const { return segment_bytes_; }

 private:
  LogFile(std::string folder, FileLock lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}
  std::string segment_path(int64_t number) const;
  Status start_segment(int64_t number, const LogSnapshot& snapshot, const std::string& frame);
  Status open_segment(int64_t number, int64_t whole_bytes);
  void remove_other_segments() const;
  Status write_frame(const std::string& frame);
  Error break_off(const Error& error);

  std::string folder_;
  FileLock lock_;
  int fd_ = -1;  // of the segment
  int64_t number_ = 0;
  int64_t segment_bytes_ = 0;
  std::optional<Error> broken_;
};

}  // namespace trireme
