#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// Tokens that will become a token file: appended as int32, without a header. After a process was
// stopped it contains the tokens up to the last sync().
class PartFile {
 public:
  // Opens or creates the file and drops everything after the first keep_tokens tokens.
  static Result<PartFile> open(const std::string& path, int64_t keep_tokens);
  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&& other) noexcept;
  ~PartFile();

  Status append(std::span<const int32_t> tokens);
  Status sync();
  // Reads tokens that were written before the last sync().
  Status read(int64_t offset, std::span<int32_t> tokens) const;

  const std::string& path() const { return path_; }
  int64_t num_tokens() const { return num_tokens_; }

 private:
  PartFile(std::string path, int fd, int64_t num_tokens);
  Status flush();

  std::string path_;
  int fd_ = -1;
  int64_t num_tokens_ = 0;
  std::vector<int32_t> buffer_;
};

}  // namespace trireme
