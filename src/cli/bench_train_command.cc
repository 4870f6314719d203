#include "cli/bench_train_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>

#include "api/this_machine.h"
#include "base/json_text.h"
#include "base/units.h"
#include "session/throughput.h"

namespace trireme {
namespace {

constexpr int64_t kWarmupSteps = 2;

nlohmann::ordered_json ops_json(const OpComparison& ops) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const OpTimes& op : sum_of_layers(ops.measured)) {
    json.push_back({{"unit", op.unit},
                    {"op", op.op},
                    {"forward_s", op.seconds[size_t(OpHalf::Forward)]},
                    {"input_grad_s", op.seconds[size_t(OpHalf::InputGrad)]},
                    {"weight_grad_s", op.seconds[size_t(OpHalf::WeightGrad)]},
                    {"flops", op.flops}});
  }
  return json;
}

// The ops of a step, the longest first, and what is left of the step beside them.
std::string ops_text(const Throughput& measured) {
  std::vector<OpTimes> ops = sum_of_layers(measured.ops.measured);
  std::sort(ops.begin(), ops.end(), [](const OpTimes& a, const OpTimes& b) {
    return total_s(a.seconds) > total_s(b.seconds);
  });
  const double all_s =
      std::accumulate(measured.step_seconds.begin(), measured.step_seconds.end(), 0.0);
  const double step_s = all_s / double(measured.step_seconds.size());
  std::string text = fmt::format("\n{:<10} {:<20} {:>10} {:>10} {:>10} {:>8} {:>9}\n", "unit", "op",
                                 "forward", "dX", "dW", "of step", "of peak");
  double left_s = step_s;
  for (const OpTimes& op : ops) {
    const double seconds = total_s(op.seconds);
    left_s -= seconds;
    text += fmt::format("{:<10} {:<20} {:>10} {:>10} {:>10} {:>7.1f}%", op.unit, op.op,
                        format_seconds(op.seconds[size_t(OpHalf::Forward)]),
                        format_seconds(op.seconds[size_t(OpHalf::InputGrad)]),
                        format_seconds(op.seconds[size_t(OpHalf::WeightGrad)]),
                        100.0 * seconds / step_s);
    const double share = op.flops / (seconds * measured.peak_flops_of_rank);
    text += op.flops > 0.0 ? fmt::format(" {:>8.1f}%\n", 100.0 * share) : "\n";
  }
  return text + fmt::format("{:<64} {:>7.1f}%\n", "update, exchange, reading, waiting",
                            100.0 * left_s / step_s);
}

}  // namespace

Result<int> run_bench_train(const BenchTrainOptions& options, CommandIo& io) {
  TRIREME_TRY(loaded, load_config(options.config, io));
  TRIREME_TRY(measured, measure_throughput(loaded.config, this_host(), kWarmupSteps, options.steps,
                                           options.times_ops, io.open_input));
  if (options.json) {
    nlohmann::ordered_json json = {{"tokens_per_s", measured.tokens_per_s},
                                   {"step_s", measured.median_step_s},
                                   {"steps", measured.step_seconds.size()},
                                   {"mfu", measured.mfu},
                                   {"peak_flops", measured.peak_flops},
                                   {"arena_peak_bytes", measured.arena_peak_bytes},
                                   {"rss_peak_bytes", measured.rss_peak_bytes},
                                   {"first_step_after_s", measured.first_step_after_s},
                                   {"final_loss", measured.final_loss}};
    if (options.times_ops) json["ops"] = ops_json(measured.ops);
    io.out << json_text(json) << "\n";
    return 0;
  }
  io.out << fmt::format(
      "{} tokens/s, {} a step (median of {}), MFU {:.1f}% of {:.1f} GFLOP/s, arena {}, "
      "resident {}, first step after {}\n",
      format_rate(measured.tokens_per_s), format_seconds(measured.median_step_s),
      measured.step_seconds.size(), 100.0 * measured.mfu, measured.peak_flops * 1e-9,
      format_bytes(measured.arena_peak_bytes), format_bytes(measured.rss_peak_bytes),
      format_seconds(measured.first_step_after_s));
  if (options.times_ops) io.out << ops_text(measured);
  return 0;
}

}  // namespace trireme
