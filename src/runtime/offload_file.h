#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trireme {

// A file that is written and read while a run lasts: reserved on the disk when it is made and
// mapped into memory. It has no name any more once it is open, so the disk has its room back when
// the process ends, however it ends. Throws IoError: what, where, what to change.
class OffloadFile {
 public:
  // A file of zeros in the folder of `path`, which is its name in messages.
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
