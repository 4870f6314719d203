#include "observe/host_record.h"

#include <utility>

#include "base/clock.h"

namespace trireme {
namespace {

constexpr double kEveryS = 1.0;

}  // namespace

void HostRecord::on_step(const StepReport& report) {
  if (double(monotonic_ns()) * 1e-9 - before_.taken_s < kEveryS) return;
  const HostCounters now = read_host_counters();
  const HostStatistics statistics = between(before_, now);
  before_ = now;
  std::vector<DeviceStatistics> devices = devices_.read();
  metrics_.write_host(report.step, statistics, devices);
  if (prometheus_ != nullptr) prometheus_->set_host(statistics, std::move(devices));
}

}  // namespace trireme
