// A library for tests, which takes the place of NVIDIA's and has two devices. The second device
// reports nothing but its temperature.
#include <cstdio>

namespace {

constexpr int kNotSupported = 3;

struct FakeState {
  int is_ready = 0;
  int devices[2] = {};
};
FakeState state;  // global, because the C interface passes no state

bool is_first(const void* device) { return device == &state.devices[0]; }

}  // namespace

extern "C" {

int nvmlInit_v2() { return state.is_ready++; }
int nvmlShutdown() { return --state.is_ready; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return state.is_ready == 1 ? 0 : 1;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &state.devices[index];
  return 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned bytes) {
  std::snprintf(name, bytes, "Fake 100");
  return is_first(device) ? 0 : kNotSupported;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  *celsius = is_first(device) ? 71 : 40;
  return sensor;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 312500;
  return is_first(device) ? 0 : kNotSupported;
}
int nvmlDeviceGetTotalEccErrors(void* device, int kind, int counter, unsigned long long* errors) {
  *errors = kind == 0 ? 12 : 3;
  return is_first(device) && counter == 0 ? 0 : kNotSupported;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = is_first(device) ? 0x41 : 0;  // idle, and too hot
  return 0;
}

}  // extern "C"
