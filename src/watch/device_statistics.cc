#include "watch/device_statistics.h"

#include <dlfcn.h>

#include <array>
#include <numeric>

namespace trireme {
namespace {

// Constants and types from the documentation of NVIDIA's management library (NVML).
using NvmlDevice = void*;
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlTemperatureOfGpu = 0;
constexpr int kNvmlCorrected = 0;
constexpr int kNvmlUncorrected = 1;
constexpr int kNvmlVolatile = 0;  // counters since the driver was loaded
constexpr size_t kNameBytes = 96;

struct ThrottleReason {
  unsigned long long bit;
  std::string_view name;
};
// Leaves out a clock that is low because the device is idle or because the user has set it.
constexpr ThrottleReason kThrottleReasons[] = {{0x04, "sw_power_cap"},
                                               {0x08, "hw_slowdown"},
                                               {0x20, "sw_thermal"},
                                               {0x40, "hw_thermal"},
                                               {0x80, "hw_power_brake"}};

template <typename Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
}

}  // namespace

struct Devices::Library {
  void* handle = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, NvmlDevice*) = nullptr;
  int (*name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;  // mW
  int (*ecc_errors)(NvmlDevice, int, int, unsigned long long*) = nullptr;
  int (*throttle)(NvmlDevice, unsigned long long*) = nullptr;

  ~Library() {
    if (handle != nullptr) ::dlclose(handle);
  }
  // Returns false if the library is missing or lacks a function that is always needed.
  bool load(const std::string& path) {
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return false;
    find(handle, "nvmlInit_v2", init);
    find(handle, "nvmlShutdown", shutdown);
    find(handle, "nvmlDeviceGetCount_v2", count);
    find(handle, "nvmlDeviceGetHandleByIndex_v2", device);
    find(handle, "nvmlDeviceGetName", name);
    find(handle, "nvmlDeviceGetTemperature", temperature);
    find(handle, "nvmlDeviceGetPowerUsage", power);
    find(handle, "nvmlDeviceGetTotalEccErrors", ecc_errors);
    find(handle, "nvmlDeviceGetCurrentClocksThrottleReasons", throttle);
    return init != nullptr && shutdown != nullptr && count != nullptr && device != nullptr;
  }
  std::optional<int64_t> errors(NvmlDevice of, int kind) const {
    unsigned long long errors = 0;
    const bool is_known =
        ecc_errors != nullptr && ecc_errors(of, kind, kNvmlVolatile, &errors) == kNvmlSuccess;
    return is_known ? std::optional(static_cast<int64_t>(errors)) : std::nullopt;
  }
  DeviceStatistics read(NvmlDevice of, int index) const;
};

DeviceStatistics Devices::Library::read(NvmlDevice of, int index) const {
  DeviceStatistics read{.index = index};
  std::array<char, kNameBytes> text = {};
  if (name != nullptr && name(of, text.data(), kNameBytes - 1) == kNvmlSuccess) {
    read.name = text.data();
  }
  unsigned number = 0;
  if (temperature != nullptr && temperature(of, kNvmlTemperatureOfGpu, &number) == kNvmlSuccess) {
    read.temperature_c = number;
  }
  if (power != nullptr && power(of, &number) == kNvmlSuccess) read.power_w = number * 1e-3;
  read.ecc_corrected = errors(of, kNvmlCorrected);
  read.ecc_uncorrected = errors(of, kNvmlUncorrected);
  unsigned long long reasons = 0;
  if (throttle != nullptr && throttle(of, &reasons) == kNvmlSuccess) {
    for (const ThrottleReason& reason : kThrottleReasons) {
      if ((reasons & reason.bit) != 0) read.throttle.push_back(reason.name);
    }
  }
  return read;
}

Devices::Devices(const std::string& library) : library_(std::make_unique<Library>()) {
  const bool is_ready = library_->load(library) && library_->init() == kNvmlSuccess;
  if (!is_ready) library_.reset();
}

Devices::~Devices() {
  if (library_ != nullptr) library_->shutdown();
}

std::vector<DeviceStatistics> Devices::read() const {
  std::vector<DeviceStatistics> devices;
  unsigned count = 0;
  if (library_ == nullptr || library_->count(&count) != kNvmlSuccess) return devices;
  for (unsigned index = 0; index < count; ++index) {
    NvmlDevice device = nullptr;
    if (library_->device(index, &device) != kNvmlSuccess) continue;  // the device is lost
    devices.push_back(library_->read(device, int(index)));
  }
  return devices;
}

int64_t uncorrected_errors(const std::vector<DeviceStatistics>& devices) {
  return std::accumulate(devices.begin(), devices.end(), int64_t{0},
                         [](int64_t sum, const DeviceStatistics& device) {
                           return sum + device.ecc_uncorrected.value_or(0);
                         });
}

}  // namespace trireme
