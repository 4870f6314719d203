#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "train/observer.h"

namespace trireme {

// A file that grows by whole records during a run. A record that cannot be written is dropped as a
// whole and reported once, so a full disk does not end a run before its next checkpoint.
class AppendFile {
 public:
  static Result<AppendFile> create(const std::string& path);  // replaces an existing file
  // Appends to the file; refuses a symbolic link.
  static Result<AppendFile> open(const std::string& path);
  // A file that cannot be written yet, for `cause`: its records are lost until restore() succeeds.
  static AppendFile missing(const std::string& path, const std::string& cause);
  // Makes a file shorter that begins with mostly the same bytes. It takes no more room on the disk,
  // but a crash in the middle of it leaves a mixture of both.
  static Status shorten(const std::string& path, std::string_view kept);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;
  ~AppendFile();

  void append(std::string_view record);
  int64_t bytes() const { return bytes_; }  // size of the file
  // Renames the file to `old_path` and begins an empty file in its place. If this fails, later
  // records are added to the old file as before.
  Status rotate(const std::string& old_path);
  // If the file is no longer at its path, because its folder was moved or removed, writes its whole
  // content there again and appends to that file from now on. A file at the path is replaced.
  Status restore();
  // Sets who is told when records are lost. Losses before this call are reported too.
  void tell_losses_to(std::vector<RunObserver*> listeners);

 private:
  AppendFile(std::string path, int fd, int64_t bytes);
  static Result<AppendFile> open(const std::string& path, int flags);
  void drop_record(int cause);
  void tell_loss(const std::string& cause);

  std::string path_;
  int fd_;
  int64_t bytes_;     // length of the whole records
  std::string loss_;  // why the first record was lost; "" if none was
  std::vector<RunObserver*> listeners_;
};

}  // namespace trireme
