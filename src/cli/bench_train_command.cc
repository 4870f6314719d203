#include "cli/bench_train_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "api/this_machine.h"
#include "base/units.h"
#include "session/throughput.h"

namespace trireme {
namespace {

constexpr int64_t kWarmupSteps = 2;

}  // namespace

Result<int> run_bench_train(const BenchTrainOptions& options, CommandIo& io) {
  TRIREME_TRY(loaded, load_config(options.config, io));
  TRIREME_TRY(measured,
              measure_throughput(loaded.config, this_host(), kWarmupSteps, options.steps));
  if (options.json) {
    const nlohmann::ordered_json json = {{"tokens_per_s", measured.tokens_per_s},
                                         {"step_s", measured.median_step_s},
                                         {"steps", measured.step_seconds.size()},
                                         {"mfu", measured.mfu},
                                         {"peak_flops", measured.peak_flops},
                                         {"arena_peak_bytes", measured.arena_peak_bytes},
                                         {"rss_peak_bytes", measured.rss_peak_bytes},
                                         {"first_step_after_s", measured.first_step_after_s},
                                         {"final_loss", measured.final_loss}};
    io.out << json.dump() << "\n";
    return 0;
  }
  io.out << fmt::format(
      "{} tokens/s, {} a step (median of {}), MFU {:.1f}% of {} FLOP/s, arena {}, resident {}, "
      "first step after {}\n",
      format_rate(measured.tokens_per_s), format_duration(measured.median_step_s),
      measured.step_seconds.size(), 100.0 * measured.mfu, format_rate(measured.peak_flops),
      format_bytes(measured.arena_peak_bytes), format_bytes(measured.rss_peak_bytes),
      format_duration(measured.first_step_after_s));
  return 0;
}

}  // namespace trireme
