#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

// A whole file mapped read-only. Move-only; the map ends with the object.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Writes path.tmp-PID, syncs, renames over `path`, syncs the folder: readers see the old file or
// the new one, never a part. Nothing is left behind on failure. Move-only; a writer destroyed
// before commit() removes its temporary file.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  // Overwrites bytes written before, such as a header whose content is known at the end.
  Status write_at(int64_t offset, std::span<const std::byte> bytes);
  Status commit();

 private:
  AtomicFile(std::string path, std::string temporary, int fd);
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

Result<std::string> read_text_file(const std::string& path);
Status write_file_atomically(const std::string& path, std::string_view text);
// Makes the folders that `path`, a file to be written, lies in.
Status make_folders_of(const std::string& path);
// fsync of a folder, so that a rename inside it survives a power loss.
Status sync_folder(const std::string& path);

}  // namespace trireme
