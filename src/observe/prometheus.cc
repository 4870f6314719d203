#include "observe/prometheus.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/file.h"

namespace trireme {
namespace {

constexpr int64_t kFileEveryNs = 1'000'000'000;

enum Metric : size_t {
  kSteps,
  kStepsTotal,
  kTokens,
  kSkipped,
  kLoss,
  kLearningRate,
  kGradNorm,
  kNoiseScale,
  kStepSeconds,
  kTokensPerSecond,
  kMfu,
  kAuxLoss,
  kZLoss,
  kMaxLogit,
  kClippedHeads,
  kValidationLoss,
  kBestValidationLoss,
  kBestValidationStep,
  kEpoch,
  kPeak,
  kExposed,
  kBubble,
  kCheckpointStep,
  kCheckpointTime,
  kCheckpointAge,
  kEffective,
  kPredicted,
  kHostStolen,
  kHostRunnable,
  kHostFaults,
  kHostMemoryPressure,
  kHostDisk,
  kHostNetworkErrors,
  kHostThrottled,
  kNumMetrics
};

struct Description {
  const char* name;
  const char* type;
  const char* help;
};

constexpr std::array<Description, kNumMetrics> kDescriptions = {{
    {"trireme_step", "gauge", "Steps done, including those before the run was resumed."},
    {"trireme_target_steps", "gauge", "Steps at which the run ends."},
    {"trireme_tokens_total", "counter", "Valid tokens trained on since this process began."},
    {"trireme_skipped_steps_total", "counter",
     "Steps without an update, because a gradient was not finite."},
    {"trireme_loss", "gauge", "Training loss of the last step, nats per token."},
    {"trireme_learning_rate", "gauge", "Learning rate of the last step."},
    {"trireme_gradient_norm", "gauge", "Norm of the last gradient, before clipping."},
    {"trireme_gradient_noise_scale_tokens", "gauge",
     "Last gradient noise scale: tokens of a batch whose noise equals its gradient."},
    {"trireme_step_seconds", "gauge", "Duration of the last step."},
    {"trireme_tokens_per_second", "gauge", "Tokens per second of the last step."},
    {"trireme_mfu_ratio", "gauge", "Model FLOPs of the last step divided by the measured ceiling."},
    {"trireme_aux_loss", "gauge",
     "Load-balancing loss of the last step, without its weight; 1 means balanced."},
    {"trireme_z_loss", "gauge",
     "Squared log-sum-exp of the routers' logits, mean of the last step, without its weight."},
    {"trireme_max_attention_logit", "gauge",
     "Largest attention logit of the last step, with optim.qk_clip."},
    {"trireme_clipped_heads", "gauge",
     "Heads whose queries and keys optim.qk_clip scaled in the last step."},
    {"trireme_validation_loss", "gauge", "Last validation loss, nats per token."},
    {"trireme_best_validation_loss", "gauge", "Lowest validation loss so far."},
    {"trireme_best_validation_step", "gauge", "Step of the lowest validation loss."},
    {"trireme_epoch", "gauge", "Passes over the training data."},
    {"trireme_peak_bytes", "gauge", "Greatest use of planned memory so far, of rank 0."},
    {"trireme_exposed_communication_ratio", "gauge",
     "Share of the last step in which rank 0 waited for communication."},
    {"trireme_bubble_ratio", "gauge",
     "Share of the last step in which rank 0 waited for other stages."},
    {"trireme_checkpoint_step", "gauge", "Step of the last checkpoint."},
    {"trireme_checkpoint_timestamp_seconds", "gauge", "When the last checkpoint was complete."},
    {"trireme_checkpoint_age_seconds", "gauge", "Time since the last checkpoint was complete."},
    {"trireme_effective_ratio", "gauge",
     "Share of the time of the job that was not lost to saves and failures."},
    {"trireme_predicted_effective_ratio", "gauge",
     "The same as predicted from measured costs and the rate of failures."},
    {"trireme_host_stolen_ratio", "gauge",
     "Share of the time of all cores that the host of a virtual machine has taken."},
    {"trireme_host_runnable_threads", "gauge", "Threads that run or wait for a core."},
    {"trireme_host_major_faults_per_second", "gauge", "Page faults that have read a disk."},
    {"trireme_host_memory_pressure_ratio", "gauge",
     "Share of the last 10 s in which a thread waited for memory."},
    {"trireme_host_disk_seconds", "gauge", "Mean time of a read or a write of a disk."},
    {"trireme_host_network_errors_total", "counter",
     "Errors and lost carriers of all adapters since this process began."},
    {"trireme_host_throttled_seconds_total", "counter",
     "Time in which cores were slowed down since this process began."},
}};

struct RankMetric {
  const char* name;
  const char* help;
  double (*value)(const RankTimes& rank);
};

constexpr std::array<RankMetric, 4> kRankMetrics = {{
    {"trireme_rank_compute_seconds", "Computation of a rank in a step, mean of about a second.",
     [](const RankTimes& rank) { return rank.compute_s; }},
    {"trireme_rank_exposed_communication_seconds",
     "Time that a rank waits for communication in a step, mean of about a second.",
     [](const RankTimes& rank) { return rank.exposed_comm_s; }},
    {"trireme_rank_bubble_seconds",
     "Time that a rank waits for other stages in a step, mean of about a second.",
     [](const RankTimes& rank) { return rank.bubble_s; }},
    {"trireme_rank_peak_bytes", "Greatest use of planned memory of a rank so far.",
     [](const RankTimes& rank) { return double(rank.peak_bytes); }},
}};

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

std::string prometheus_escaped(std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

Result<std::unique_ptr<PrometheusMetrics>> PrometheusMetrics::start(const Options& options) {
  std::unique_ptr<PrometheusMetrics> metrics(new PrometheusMetrics(options));
  if (options.port != 0) {
    TRIREME_TRY(server, MetricsServer::listen(options.host, options.port,
                                              [owner = metrics.get()] { return owner->text(); }));
    metrics->server_ = std::move(server);
  }
  if (!options.file.empty()) TRIREME_TRY_DONE(write_file_atomically(options.file, metrics->text()));
  return metrics;
}

PrometheusMetrics::PrometheusMetrics(const Options& options)
    : options_(options), values_(kNumMetrics, 0.0), known_(kNumMetrics, false) {
  set(kStepsTotal, double(options.total_steps));
}

PrometheusMetrics::~PrometheusMetrics() {
  server_.reset();
  write_file();
}

void PrometheusMetrics::set(size_t metric, double value) {
  values_[metric] = value;
  known_[metric] = true;
}

void PrometheusMetrics::on_step(const StepReport& report) {
  {
    const std::lock_guard lock(mutex_);
    set(kSteps, double(report.step));
    set(kTokens, values_[kTokens] + double(report.tokens));
    set(kSkipped, values_[kSkipped] + (report.skipped ? 1.0 : 0.0));
    set(kLoss, report.loss);
    set(kLearningRate, report.lr);
    set(kGradNorm, report.grad_norm);
    if (report.noise_scale) set(kNoiseScale, *report.noise_scale);
    set(kStepSeconds, report.step_s);
    set(kTokensPerSecond, report.tokens_per_s);
    set(kMfu, report.mfu);
    if (report.epoch) set(kEpoch, *report.epoch);
    if (report.peak_bytes > 0) set(kPeak, double(report.peak_bytes));
    if (report.step_s > 0.0) {
      set(kExposed, report.exposed_comm_s / report.step_s);
      set(kBubble, report.bubble_s / report.step_s);
    }
    if (report.aux_loss) set(kAuxLoss, *report.aux_loss);
    if (report.z_loss) set(kZLoss, *report.z_loss);
    if (report.max_logit) {
      set(kMaxLogit, *report.max_logit);
      set(kClippedHeads, double(report.clipped_heads));
    }
  }
  if (monotonic_ns() - written_ns_ >= kFileEveryNs) write_file();
}

void PrometheusMetrics::on_eval(const EvalReport& report) {
  const std::lock_guard lock(mutex_);
  set(kValidationLoss, report.val_loss);
  if (report.best_step < 0) return;
  set(kBestValidationLoss, report.best_loss);
  set(kBestValidationStep, double(report.best_step));
}

void PrometheusMetrics::on_checkpoint(const CheckpointReport& report) {
  const std::lock_guard lock(mutex_);
  set(kCheckpointStep, double(report.step));
  set(kCheckpointTime, unix_time_s());
  known_[kCheckpointAge] = true;  // its value is computed when it is read
}

void PrometheusMetrics::on_goodput(const GoodputReport& report) {
  const std::lock_guard lock(mutex_);
  set(kEffective, report.effective());
  set(kPredicted, report.predicted);
  spent_s_ = {{"compute", report.compute_s},       {"exposed_comm", report.exposed_comm_s},
              {"stragglers", report.stragglers_s}, {"bubble", report.bubble_s},
              {"saving", report.saving_s},         {"failures", report.failures_s},
              {"redone", report.redone_s},         {"other", report.other_s}};
}

void PrometheusMetrics::on_ranks(int64_t, std::span<const RankTimes> ranks) {
  const std::lock_guard lock(mutex_);
  ranks_.assign(ranks.begin(), ranks.end());
}

void PrometheusMetrics::set_host(const HostStatistics& statistics,
                                 std::vector<DeviceStatistics> devices) {
  const std::lock_guard lock(mutex_);
  devices_ = std::move(devices);
  set(kHostStolen, statistics.stolen);
  set(kHostRunnable, statistics.runnable);
  set(kHostFaults, statistics.faults_per_s);
  set(kHostMemoryPressure, statistics.memory_pressure);
  set(kHostDisk, statistics.disk_ms * 1e-3);
  set(kHostNetworkErrors, values_[kHostNetworkErrors] + double(statistics.network_errors));
  set(kHostThrottled, values_[kHostThrottled] + double(statistics.throttled_ms) * 1e-3);
}

// An error is not reported: whoever collects the file notices that it is missing, and the run
// continues.
void PrometheusMetrics::write_file() {
  if (options_.file.empty()) return;
  written_ns_ = monotonic_ns();
  const Status written = write_file_atomically(options_.file, text());
  (void)written;
}

// Writes one metric for each number, with a sample for each device.
std::string PrometheusMetrics::devices_text(const std::string& labels) const {
  std::string text;
  const auto add_family = [&](const char* name, const char* type, const char* help,
                              const auto& number_of) {
    std::string samples;
    for (const DeviceStatistics& device : devices_) {
      const auto number = number_of(device);
      if (!number) continue;
      samples += fmt::format("{}{{{}{}device=\"{}\"}} {}\n", name, labels,
                             labels.empty() ? "" : ",", device.index, number_text(double(*number)));
    }
    if (samples.empty()) return;
    text += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n{3}", name, type, help, samples);
  };
  using Device = DeviceStatistics;
  add_family("trireme_device_temperature_celsius", "gauge", "Temperature of a device.",
             [](const Device& device) { return device.temperature_c; });
  add_family("trireme_device_power_watts", "gauge", "Power that a device takes.",
             [](const Device& device) { return device.power_w; });
  add_family("trireme_device_ecc_corrected_total", "counter",
             "Errors of a device's memory that were corrected since its driver was loaded.",
             [](const Device& device) { return device.ecc_corrected; });
  add_family("trireme_device_ecc_uncorrected_total", "counter",
             "Errors of a device's memory that were not corrected since its driver was loaded.",
             [](const Device& device) { return device.ecc_uncorrected; });
  std::string throttled;
  for (const Device& device : devices_) {
    for (const std::string_view reason : device.throttle) {
      throttled += fmt::format("trireme_device_throttled{{{}{}device=\"{}\",reason=\"{}\"}} 1\n",
                               labels, labels.empty() ? "" : ",", device.index, reason);
    }
  }
  if (throttled.empty()) return text;
  return text +
         "# HELP trireme_device_throttled 1 if the clock of a device is lowered for this reason.\n"
         "# TYPE trireme_device_throttled gauge\n" +
         throttled;
}

std::string PrometheusMetrics::text_of_ranks(const std::string& labels) const {
  std::string text;
  if (ranks_.empty()) return text;
  for (const RankMetric& of : kRankMetrics) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n", of.name, of.help);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      text += fmt::format("{}{{{}{}rank=\"{}\"}} {}\n", of.name, labels, labels.empty() ? "" : ",",
                          rank, number_text(of.value(ranks_[rank])));
    }
  }
  return text;
}

std::vector<std::string> PrometheusMetrics::names() {
  std::vector<std::string> names;
  for (const Description& of : kDescriptions) names.emplace_back(of.name);
  for (const RankMetric& of : kRankMetrics) names.emplace_back(of.name);
  names.emplace_back("trireme_spent_seconds_total");
  return names;
}

std::string PrometheusMetrics::text() const {
  std::string labels;
  for (const auto& [name, value] : options_.labels) {
    labels +=
        fmt::format("{}{}=\"{}\"", labels.empty() ? "" : ",", name, prometheus_escaped(value));
  }
  const std::lock_guard lock(mutex_);
  std::string text;
  for (size_t metric = 0; metric < kNumMetrics; ++metric) {
    if (!known_[metric]) continue;
    const Description& of = kDescriptions[metric];
    text += fmt::format(
        "# HELP {0} {2}\n# TYPE {0} {1}\n{0}{{{3}}} {4}\n", of.name, of.type, of.help, labels,
        number_text(metric == kCheckpointAge ? unix_time_s() - values_[kCheckpointTime]
                                             : values_[metric]));
  }
  text += devices_text(labels);
  text += text_of_ranks(labels);
  if (spent_s_.empty()) return text;
  text +=
      "# HELP trireme_spent_seconds_total Time of the job since training began.\n"
      "# TYPE trireme_spent_seconds_total counter\n";
  for (const auto& [reason, seconds] : spent_s_) {
    text += fmt::format("trireme_spent_seconds_total{{{}{}reason=\"{}\"}} {}\n", labels,
                        labels.empty() ? "" : ",", reason, number_text(seconds));
  }
  return text;
}

}  // namespace trireme
