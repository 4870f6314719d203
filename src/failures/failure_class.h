#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

// What has failed, as far as anyone can act on it (docs/failures.md). Unknown: the evidence does
// not say.
enum class FailureClass : uint8_t {
  UserProgram,
  HostMemory,
  DeviceMemory,
  DeviceLost,
  DeviceLink,
  NetworkLink,
  NetworkTimeout,
  FileSystem,
  DiskFull,
  HostGone,
  Hang,
  Slow,
  Numbers,
  Corruption,
  Unknown,
};

// The name of a class stands at the place of its value.
inline constexpr std::string_view kFailureClassNames[] = {
    "user program",     "host memory", "device memory",
    "device lost",      "device link", "network link",
    "network time-out", "file system", "disk full",
    "host gone",        "hang",        "slow",
    "numbers",          "corruption",  "unknown"};

std::string_view name_of(FailureClass failure_class);

}  // namespace trireme
