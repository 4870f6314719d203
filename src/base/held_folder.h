#pragma once

#include <string>

#include "base/result.h"

namespace trireme {

// An open folder. It stays the same folder whatever happens to its path. Move-only.
class HeldFolder {
 public:
  static Result<HeldFolder> open(const std::string& path);
  HeldFolder(HeldFolder&& other) noexcept;
  HeldFolder& operator=(HeldFolder&& other) noexcept;
  ~HeldFolder();

  const std::string& path() const { return path_; }
  // Returns false once the folder was moved or removed, even if another one has taken its place.
  bool is_at_its_path() const;
  // Returns a path that leads to this folder wherever it is now.
  std::string inside() const;

 private:
  HeldFolder(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
};

}  // namespace trireme
