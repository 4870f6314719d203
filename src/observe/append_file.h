#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "train/observer.h"

namespace trireme {

// A file that grows by records while a run goes on. A record that cannot be written is dropped
// whole, which is said once: a full disk does not end a run before its next checkpoint.
class AppendFile {
 public:
  static Result<AppendFile> create(const std::string& path);  // in the place of an old one
  static Result<AppendFile> open(const std::string& path);    // to append to; no link
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;
  ~AppendFile();

  void append(std::string_view record);
  // Who is told when records are lost; also of those lost before this call.
  void tell_losses_to(std::vector<RunObserver*> listeners);

 private:
  AppendFile(std::string path, int fd, int64_t bytes);
  static Result<AppendFile> open(const std::string& path, int flags);
  void drop_record(int cause);

  std::string path_;
  int fd_;
  int64_t bytes_;     // of whole records
  std::string loss_;  // what was lost first; "" as long as nothing was
  std::vector<RunObserver*> listeners_;
};

}  // namespace trireme
