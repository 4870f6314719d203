#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trireme {

// A file that is written and read while a run lasts: reserved on the disk when it is made, mapped
// into memory, removed with the object. Throws IoError: what, where, what to change.
class OffloadFile {
 public:
  // A file of zeros; what stood at `path` before is gone.
  OffloadFile(std::string path, int64_t bytes);
  ~OffloadFile();
  OffloadFile(const OffloadFile&) = delete;
  OffloadFile& operator=(const OffloadFile&) = delete;

  // For whoever sets or saves the content between steps. Pages that were touched count as resident
  // until release_pages.
  std::byte* mapped() const { return mapped_; }
  void release_pages();

  void read(int64_t offset, std::span<std::byte> bytes) const;
  void write(int64_t offset, std::span<const std::byte> bytes) const;
  // The file is as long as it was made: its map can be read.
  void expect_whole() const;

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail(const std::string& what, int error) const;

  std::string path_;
  int64_t bytes_ = 0;
  int fd_ = -1;
  std::byte* mapped_ = nullptr;
};

}  // namespace trireme
