#include "observe/prometheus.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>

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
  kValidationLoss,
  kCheckpointStep,
  kCheckpointTime,
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
    {"trireme_validation_loss", "gauge", "Last validation loss, nats per token."},
    {"trireme_checkpoint_step", "gauge", "Step of the last checkpoint."},
    {"trireme_checkpoint_timestamp_seconds", "gauge", "When the last checkpoint was complete."},
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
    if (report.aux_loss) set(kAuxLoss, *report.aux_loss);
    if (report.z_loss) set(kZLoss, *report.z_loss);
  }
  if (monotonic_ns() - written_ns_ >= kFileEveryNs) write_file();
}

void PrometheusMetrics::on_eval(const EvalReport& report) {
  const std::lock_guard lock(mutex_);
  set(kValidationLoss, report.val_loss);
}

void PrometheusMetrics::on_checkpoint(const CheckpointReport& report) {
  const std::lock_guard lock(mutex_);
  set(kCheckpointStep, double(report.step));
  set(kCheckpointTime, unix_time_s());
}

// An error is not reported: whoever collects the file notices that it is missing, and the run
// continues.
void PrometheusMetrics::write_file() {
  if (options_.file.empty()) return;
  written_ns_ = monotonic_ns();
  const Status written = write_file_atomically(options_.file, text());
  (void)written;
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
    text += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n{0}{{{3}}} {4}\n", of.name, of.type,
                        of.help, labels, number_text(values_[metric]));
  }
  return text;
}

}  // namespace trireme
