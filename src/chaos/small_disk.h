#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace trireme {

// A file system of a limited size (tmpfs) at a folder. It needs root. With this object its files
// move into an ordinary folder of the same name.
class SmallDisk {
 public:
  static Result<SmallDisk> make(const std::string& folder, int64_t bytes);
  SmallDisk(SmallDisk&& other) noexcept : folder_(std::exchange(other.folder_, "")) {}
  SmallDisk& operator=(SmallDisk&&) = delete;
  ~SmallDisk();

  void fill() const;  // until no byte is free
  void empty() const;

 private:
  explicit SmallDisk(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

}  // namespace trireme
