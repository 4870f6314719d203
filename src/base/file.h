#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/progress.h"
#include "base/result.h"

namespace trireme {

// Writes path.tmp-PID (base/leftovers.h), syncs it, renames it to `path` and syncs the folder, so
// readers see the old file or the new one, never a part. If `path` is a symbolic link, the link
// is replaced and its target is not changed. Nothing is left behind on failure. Move-only; a writer
// destroyed before commit() removes its temporary file.
class AtomicFile {
 public:
  // `progress`, if not null, is shown every call. It must outlive the file.
  static Result<AtomicFile> create(const std::string& path, Progress* progress = nullptr);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  // Overwrites bytes that were written before, such as a header whose content is known only at the
  // end.
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
  int64_t writeback_begin_ = 0;  // bytes from here on were not handed to the disk yet
};

// Opens a file for reading; the caller closes it. Anything but a regular file is refused without
// waiting, because opening a pipe without a writer would wait forever.
Result<int> open_regular_file(const std::string& path);

// Refuses a file of more than most_bytes before it is read.
Result<std::string> read_text_file(const std::string& path, int64_t most_bytes = INT64_MAX);
// Writes a file through AtomicFile. Follows symbolic links. Writes directly, not atomically, into a
// device or a pipe.
Status write_file_atomically(const std::string& path, std::string_view text,
                             Progress* progress = nullptr);
// Makes the parent folders of the file `path`.
Status make_folders_of(const std::string& path);
// Syncs a folder, so that a rename inside it survives a power loss.
Status sync_folder(const std::string& path, Progress* progress = nullptr);

}  // namespace trireme
