#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The present state of an accelerator. Values that its driver does not report are absent.
struct DeviceStatistics {
  int index = 0;
  std::string name;
  std::optional<double> temperature_c;
  std::optional<double> power_w;
  // Errors of memory and caches since the driver was loaded.
  std::optional<int64_t> ecc_corrected;
  std::optional<int64_t> ecc_uncorrected;
  // Why its clock is reduced, such as "hw_thermal"; empty if it is not reduced.
  std::vector<std::string_view> throttle;
};

// Reads the state of NVIDIA's accelerators of this host through the management library NVML. The
// library is loaded at run time if the host has it; the program builds and runs without it.
class Devices {
 public:
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  // If the library is missing or fails to start, read() returns no devices.
  explicit Devices(const std::string& library = kLibrary);
  ~Devices();
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  bool is_loaded() const { return library_ != nullptr; }
  // Returns the devices that answer, in the order of their index. May block if a device is lost.
  std::vector<DeviceStatistics> read() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

// Returns the number of uncorrected errors of all devices together.
int64_t uncorrected_errors(const std::vector<DeviceStatistics>& devices);

}  // namespace trireme
