#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

// The bytes of a file that this machine does not have as a regular file, such as one of a store.
// Several threads may call it.
class InputBytes {
 public:
  virtual ~InputBytes() = default;
  virtual int64_t bytes() const = 0;
  // As those of InputFile, for ranges inside the file.
  virtual Status read(int64_t offset, std::span<std::byte> out) const = 0;
  virtual void will_read(int64_t offset, int64_t bytes) const = 0;
  // Returns a number that differs for other bytes; 0: it is not known without reading them.
  virtual uint64_t checksum() const { return 0; }
};

// A regular file open for reading at any offset, or other bytes that are read like one. Files are
// read and never mapped: if a file is truncated or its disk fails, a read returns an error, but a
// map would raise SIGBUS. Move-only.
class InputFile {
 public:
  // A folder, a pipe or a device is an error.
  static Result<InputFile> open(const std::string& path);
  // `path` is the name in messages. Shared with other readers of the same bytes.
  InputFile(std::string path, std::shared_ptr<const InputBytes> source);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }  // size when the file was opened

  // Fills `out` with the bytes from `offset` on, or returns an error with the byte that cannot be
  // read and the reason. Several threads may call it. It allocates no heap memory unless it fails.
  Status read(int64_t offset, std::span<std::byte> out) const;
  // True if the bytes are no regular file of this machine.
  bool is_elsewhere() const { return source_ != nullptr; }
  // Returns a number of bytes that are elsewhere, which differs for other bytes; 0: it is not
  // known.
  uint64_t known_checksum() const { return source_ == nullptr ? 0 : source_->checksum(); }
  // Returns all bytes. Refuses a file of more than most_bytes before it is read.
  Result<std::string> read_all(int64_t most_bytes = INT64_MAX) const;
  // Asks the system to read these bytes ahead.
  void will_read(int64_t offset, int64_t bytes) const;

 private:
  InputFile(std::string path, int fd, int64_t bytes);
  Error failure(int64_t offset, int cause) const;

  std::string path_;
  int fd_ = -1;
  int64_t bytes_ = 0;
  std::shared_ptr<const InputBytes> source_;  // null: the bytes are those of fd_
};

// Opens a file for reading by a name that says where it is, such as store://NAME/PATH. A name that
// ends in "/" is a folder: its bytes are the paths of all files in it, each with a line break
// behind it. A folder without files is an error.
using OpenInput = std::function<Result<InputFile>(const std::string& name)>;

// True for SCHEME://..., which is no path of this machine.
bool is_url(std::string_view name);
// Opens a path of this machine, or a name of another kind with `open_input`. If that is empty, such
// a name is a usage error.
Result<InputFile> open_named(const std::string& name, const OpenInput& open_input);

}  // namespace trireme
