#include "raft/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "base/absolute_folder.h"
#include "base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSegmentPrefix = "log-";

Error system_error(const std::string& path, const std::string& action) {
  return damaged(path + ": cannot " + action + ": " + std::strerror(errno));
}

// The numbers of the segments in a folder, rising.
Result<std::vector<int64_t>> segment_numbers(const std::string& folder) {
  std::vector<int64_t> numbers;
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (!name.starts_with(kSegmentPrefix)) continue;
    int64_t number = 0;
    const char* begin = name.data() + kSegmentPrefix.size();
    const auto [at, wrong] = std::from_chars(begin, name.data() + name.size(), number);
    if (wrong == std::errc() && at == name.data() + name.size()) numbers.push_back(number);
  }
  if (error) return damaged(folder + ": cannot list: " + error.message());
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

Status check_once(const std::string& folder) {
  TRIREME_TRY(numbers, segment_numbers(folder));
  if (numbers.empty()) return damaged(folder + ": the segment of the log is missing");
  const std::string snapshot_path = folder + "/snapshot";
  LogSnapshot snapshot;
  if (fs::exists(snapshot_path)) {
    TRIREME_TRY(bytes, read_text_file(snapshot_path));
    TRIREME_TRY(parsed, parse_snapshot(bytes, snapshot_path));
    snapshot = std::move(parsed);
  }
  const int64_t number = numbers.back();
  const std::string path = folder + "/" + std::string(kSegmentPrefix) + std::to_string(number);
  TRIREME_TRY(bytes, read_text_file(path));
  TRIREME_TRY(segment, parse_segment(bytes, number, path));
  TRIREME_TRY(joined, join_contents(std::move(snapshot), std::move(segment), path));
  static_cast<void>(joined);
  return Done{};
}

}  // namespace

LogFile::LogFile(LogFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      lock_(std::move(other.lock_)),
      fd_(std::exchange(other.fd_, -1)),
      number_(other.number_),
      segment_bytes_(other.segment_bytes_),
      broken_(std::move(other.broken_)) {}

LogFile& LogFile::operator=(LogFile&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(lock_, other.lock_);
  std::swap(fd_, other.fd_);
  std::swap(number_, other.number_);
  std::swap(segment_bytes_, other.segment_bytes_);
  std::swap(broken_, other.broken_);
  return *this;
}

LogFile::~LogFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::string LogFile::segment_path(int64_t number) const {
  return folder_ + "/" + std::string(kSegmentPrefix) + std::to_string(number);
}

Result<LogFile> LogFile::open(const std::string& folder, LogContents& contents) {
  TRIREME_TRY_DONE(make_folders_of(folder + "/lock"));
  TRIREME_TRY(lock, FileLock::take(folder + "/lock"));
  LogFile file(folder, std::move(lock));
  TRIREME_TRY(numbers, segment_numbers(folder));
  const std::string snapshot_path = folder + "/snapshot";
  LogSnapshot snapshot;
  const bool has_snapshot = fs::exists(snapshot_path);
  if (has_snapshot) {
    TRIREME_TRY(bytes, read_text_file(snapshot_path));
    TRIREME_TRY(parsed, parse_snapshot(bytes, snapshot_path));
    snapshot = std::move(parsed);
  }
  if (numbers.empty()) {
    if (has_snapshot) return damaged(folder + ": has a snapshot, but its log is missing");
    contents = {};
    TRIREME_TRY_DONE(file.start_segment(1, snapshot, ""));
    // The name of the folder itself must survive a power loss, too.
    const fs::path parent = fs::path(absolute_folder(folder)).parent_path();
    TRIREME_TRY_DONE(sync_folder(parent.string()));
    return file;
  }
  const int64_t number = numbers.back();
  const std::string path = file.segment_path(number);
  TRIREME_TRY(bytes, read_text_file(path));
  TRIREME_TRY(segment, parse_segment(bytes, number, path));
  const int64_t whole_bytes = segment.whole_bytes;
  const bool is_joined = segment.base_index == snapshot.index;
  TRIREME_TRY(joined, join_contents(std::move(snapshot), std::move(segment), path));
  contents = std::move(joined);
  if (is_joined) {
    TRIREME_TRY_DONE(file.open_segment(number, whole_bytes));
  } else {  // a crash came between the snapshot and its segment
    const std::string frame = frame_of(contents.vote, contents.entries);
    TRIREME_TRY_DONE(file.start_segment(number + 1, contents.snapshot, frame));
  }
  file.remove_other_segments();
  return file;
}

// Files may be replaced between two reads, so that they do not fit together. Then they fit soon.
Status LogFile::check(const std::string& folder) {
  constexpr int kMostReads = 4;
  Status status = check_once(folder);
  for (int read = 1; read < kMostReads && !status.ok(); ++read) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    status = check_once(folder);
  }
  return status;
}

Status LogFile::open_segment(int64_t number, int64_t whole_bytes) {
  const std::string path = segment_path(number);
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return system_error(path, "open");
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
  number_ = number;
  segment_bytes_ = whole_bytes;
  if (::ftruncate(fd, whole_bytes) != 0) return system_error(path, "cut off an incomplete frame");
  // What was read may lie only in the cache of the system if the process before this one was
  // killed before it could sync.
  if (::fsync(fd) != 0) return system_error(path, "sync");
  return Done{};
}

Status LogFile::start_segment(int64_t number, const LogSnapshot& snapshot,
                              const std::string& frame) {
  const std::string head = segment_head(number, snapshot.index, snapshot.term);
  TRIREME_TRY_DONE(write_file_atomically(segment_path(number), head + frame));
  return open_segment(number, int64_t(head.size() + frame.size()));
}

void LogFile::remove_other_segments() const {
  const Result<std::vector<int64_t>> numbers = segment_numbers(folder_);
  if (!numbers) return;  // they do no harm, and the next start tries again
  for (const int64_t number : *numbers) {
    if (number != number_) ::unlink(segment_path(number).c_str());
  }
}

Error LogFile::break_off(const Error& error) {
  broken_ = error;
  return error;
}

Status LogFile::write_frame(const std::string& frame) {
  size_t written = 0;
  while (written < frame.size()) {
    const ssize_t length = ::write(fd_, frame.data() + written, frame.size() - written);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return system_error(segment_path(number_), "write");
    written += size_t(length);
  }
  if (::fdatasync(fd_) != 0) return system_error(segment_path(number_), "sync");
  segment_bytes_ += int64_t(frame.size());
  return Done{};
}

Status LogFile::append(const std::optional<LogVote>& vote, std::span<const LogEntry> entries) {
  if (broken_) return *broken_;
  const Status status = write_frame(frame_of(vote, entries));
  if (!status) return break_off(status.error());
  return status;
}

Status LogFile::save_snapshot(const LogSnapshot& snapshot, const LogVote& vote,
                              std::span<const LogEntry> entries) {
  if (broken_) return *broken_;
  Status status = write_file_atomically(folder_ + "/snapshot", encode_snapshot(snapshot));
  if (status) status = start_segment(number_ + 1, snapshot, frame_of(vote, entries));
  if (!status) return break_off(status.error());
  remove_other_segments();
  return status;
}

}  // namespace trireme
