#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/progress.h"
#include "base/result.h"

namespace trireme {

// Writes path.tmp-PID (base/leftovers.h), syncs, renames over `path`, syncs the folder: readers see
// the old file or the new one, never a part. A `path` that is a symbolic link is replaced; its
// target is left alone. Nothing is left behind on failure. Move-only; a writer destroyed before
// commit() removes its temporary file.
class AtomicFile {
 public:
  // `progress`, if not null, is shown every call and outlives the file.
  static Result<AtomicFile> create(const std::string& path, Progress* progress = nullptr);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  // Overwrites bytes written before, such as a header whose content is known at the end.
  Status write_at(int64_t offset, std::span<const std::byte> bytes);
  Status commit();

 private:
  AtomicFile(std::string path, std::string temporary, int fd, Progress* progress);
  Status start_writeback();
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  Progress* progress_ = nullptr;
  int64_t written_bytes_ = 0;    // by write()
  int64_t writeback_begin_ = 0;  // from here on nothing was handed to the disk yet
};

// Opens a file for reading; the caller closes it. Refuses what is no regular file without waiting
// for it: opening a pipe that nobody writes to would wait forever.
Result<int> open_regular_file(const std::string& path);

// Refuses a file of more than most_bytes before it is read.
Result<std::string> read_text_file(const std::string& path, int64_t most_bytes = INT64_MAX);
Status write_file_atomically(const std::string& path, std::string_view text,
                             Progress* progress = nullptr);
// Makes the folders that `path`, a file to be written, lies in.
Status make_folders_of(const std::string& path);
// fsync of a folder, so that a rename inside it survives a power loss.
Status sync_folder(const std::string& path, Progress* progress = nullptr);

}  // namespace trireme
