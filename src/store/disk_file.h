#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/disk_faults.h"

namespace trireme {

// A file that is open for writing. Its calls go through `faults`, which may be null. Move-only.
class DiskFile {
 public:
  // Creates the file, or empties it if it exists.
  static Result<DiskFile> create(const std::string& path, DiskFaults* faults);
  // Opens a file and cuts it to `bytes` bytes. Writes append behind them.
  static Result<DiskFile> open_at(const std::string& path, int64_t bytes, DiskFaults* faults);
  DiskFile(DiskFile&& other) noexcept;
  DiskFile& operator=(DiskFile&& other) noexcept;
  ~DiskFile();

  Status write(std::span<const std::span<const std::byte>> parts);
  Status write(std::string_view text);
  // Writes bytes at a place of the file; write() does not follow it.
  Status write_at(int64_t offset, std::span<const std::byte> bytes);
  Status sync();

 private:
  DiskFile(std::string path, int fd, DiskFaults* faults)
      : path_(std::move(path)), fd_(fd), faults_(faults) {}
  std::string path_;
  int fd_ = -1;
  DiskFaults* faults_ = nullptr;
};

// Creates the file `fresh` in the same folder, lets `write` fill it, syncs it, renames it to `path`
// and syncs the folder. If this fails, `fresh` is removed.
Status replace_file(const std::string& path, const std::string& fresh,
                    const std::function<Status(DiskFile&)>& write, DiskFaults* faults);
// Does the same with a text and path.new.
Status replace_file(const std::string& path, std::string_view text, DiskFaults* faults);
Status sync_folder_of(const std::string& path, DiskFaults* faults);
// Returns the error that `faults` has for this call; Done if `faults` is null.
Status fault_before(DiskFaults* faults, DiskCall call, const std::string& path);

}  // namespace trireme
