#pragma once

#include "observe/metrics.h"
#include "observe/prometheus.h"
#include "watch/device_statistics.h"
#include "watch/host_counters.h"

namespace trireme {

// Records the state of the host of rank 0 during training (HostStatistics), and that of its devices
// (DeviceStatistics). It reads after a step, but at most once a second, because reading takes about
// a millisecond.
class HostRecord : public RunObserver {
 public:
  // `prometheus` may be null. Both must outlive this object.
  HostRecord(MetricsFile& metrics, PrometheusMetrics* prometheus)
      : metrics_(metrics), prometheus_(prometheus), before_(read_host_counters()) {}
  void on_step(const StepReport& report) override;

 private:
  MetricsFile& metrics_;
  PrometheusMetrics* prometheus_;
  HostCounters before_;
  const Devices devices_;
};

}  // namespace trireme
